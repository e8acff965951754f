"""The models of the comparison, with their names for readers."""

from __future__ import annotations

from dataclasses import dataclass

from quadfeat.apps.compare.boosting import HIST, LIGHTGBM, class_of
from quadfeat.apps.compare.scoring import Task
from quadfeat.apps.reporting.colors import Color

# Names in files.
GUESS = "guess"
LINEAR = "linear"
MODEL = "kernel model"
RBF_SAMPLER = "RBFSampler"
NYSTROEM = "Nystroem"
EXACT = "exact kernel"

MAPS = (RBF_SAMPLER, NYSTROEM)  # feature maps of scikit-learn
BOOSTERS = (HIST, LIGHTGBM)
ORDER = (MODEL, *BOOSTERS, LINEAR, *MAPS, EXACT, GUESS)  # of rows in tables
PLURAL = (*MAPS, *BOOSTERS)  # models whose names are plurals


@dataclass(frozen=True)
class Contestant:
    """A model as readers see it.

    Attributes
    ----------
    title : str
        Full name.
    color : Color
        Color in figures.
    marker : str
        Marker in figures, for readers who cannot tell colors apart.
    """

    title: str
    color: Color
    marker: str


CONTESTANTS = {
    MODEL: Contestant("Kernel model (quadfeat)", Color("#b83a00", "#ff9a5c"), "P"),
    HIST: Contestant("Boosted trees (scikit-learn)", Color("#7b1fa2", "#dca6f2"), "v"),
    LIGHTGBM: Contestant("Boosted trees (LightGBM)", Color("#4d5d00", "#c8d96b"), "X"),
    LINEAR: Contestant("Linear model", Color("#5f6368", "#b4b8bd"), "D"),
    RBF_SAMPLER: Contestant("Random Fourier features", Color("#0b5c8f", "#7cc4f0"), "s"),
    NYSTROEM: Contestant("Nyström features", Color("#00695c", "#5fd6c6"), "^"),
    EXACT: Contestant("Exact kernel ridge", Color("#1a1a1a", "#e8e8e8"), "*"),
    GUESS: Contestant("Constant prediction", Color("#5f6368", "#b4b8bd"), "|"),
}


def title(name: str) -> str:
    """Return the full name of a model.

    Examples
    --------
    >>> title(MODEL)
    'Kernel model (quadfeat)'
    """
    return CONTESTANTS[name].title


def in_sentence(name: str) -> str:
    """Return the full name of a model for the middle of a sentence.

    Examples
    --------
    >>> in_sentence(HIST), in_sentence(LINEAR)
    ('boosted trees (scikit-learn)', 'the linear model')
    """
    found = title(name)
    if name != NYSTROEM:
        found = found[0].lower() + found[1:]
    return f"the {found}" if name in (GUESS, LINEAR, MODEL) else found


def class_name(name: str, task: Task) -> str:
    """Return the class that a user would import.

    Examples
    --------
    >>> class_name(MODEL, "classification"), class_name(HIST, "regression")
    ('KernelClassifier', 'HistGradientBoostingRegressor')
    """
    classifier = "Classifier" if task == "classification" else ""
    if name in BOOSTERS:
        return class_of(name, task)[1]
    names = {
        GUESS: "DummyClassifier" if classifier else "DummyRegressor",
        LINEAR: f"Ridge{classifier}",
        MODEL: "KernelClassifier" if classifier else "KernelRegressor",
        EXACT: "KernelRidge",
    }
    return names.get(name, name)


def explanation(name: str, task: Task, n_components: int, exact_rows: int) -> str:
    """Return one sentence about a model, for readers who do not know it."""
    kind = class_name(name, task)
    return {
        GUESS: (
            "Predicts the class frequencies and ignores all columns."
            if task == "classification"
            else "Predicts the mean of the target and ignores all columns."
        ),
        LINEAR: f"{kind} of scikit-learn on the encoded columns, without a kernel.",
        MODEL: (
            f"{kind} of quadfeat with default settings: it learns kernels from the data, and "
            "chooses between features and nearest rows."
        ),
        RBF_SAMPLER: (
            f"Ridge regression on {n_components} features of {kind} of scikit-learn, with a "
            "Gaussian kernel."
        ),
        NYSTROEM: (
            f"Ridge regression on {n_components} features of {kind} of scikit-learn: Gaussian "
            "kernel values at sampled training rows."
        ),
        EXACT: (
            f"{kind} of scikit-learn: the Gaussian kernel without approximation, trained on at "
            f"most {exact_rows} rows."
        ),
        HIST: f"{kind} of scikit-learn with default settings.",
        LIGHTGBM: f"{kind} of LightGBM with default settings.",
    }[name]
