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
OURS = "quadfeat"
RBF_SAMPLER = "RBFSampler"
NYSTROEM = "Nystroem"
EXACT = "exact kernel"

MAPS = (OURS, RBF_SAMPLER, NYSTROEM)  # models with a number of features, cheapest prediction first
BOOSTERS = (HIST, LIGHTGBM)
ORDER = (GUESS, LINEAR, MODEL, *MAPS, EXACT, *BOOSTERS)  # of rows in tables

Key = tuple[str, int]  # name of a model, and its number of features or 0


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
    GUESS: Contestant("Constant prediction", Color("#5f6368", "#b4b8bd"), "|"),
    LINEAR: Contestant("Linear model", Color("#5f6368", "#b4b8bd"), "D"),
    MODEL: Contestant("Kernel model (quadfeat)", Color("#b83a00", "#ff9a5c"), "P"),
    OURS: Contestant("Quadrature features", Color("#a3004f", "#ff94c2"), "o"),
    RBF_SAMPLER: Contestant("Random Fourier features", Color("#0b5c8f", "#7cc4f0"), "s"),
    NYSTROEM: Contestant("Nyström features", Color("#00695c", "#5fd6c6"), "^"),
    EXACT: Contestant("Exact kernel ridge", Color("#1a1a1a", "#e8e8e8"), "*"),
    HIST: Contestant("Boosted trees (scikit-learn)", Color("#7b1fa2", "#dca6f2"), "v"),
    LIGHTGBM: Contestant("Boosted trees (LightGBM)", Color("#4d5d00", "#c8d96b"), "X"),
}


def title(key: Key) -> str:
    """Return the full name of a model, with its number of features if it has one.

    Examples
    --------
    >>> title((OURS, 512)), title((LINEAR, 0))
    ('Quadrature features, D = 512', 'Linear model')
    """
    name = CONTESTANTS[key[0]].title
    return f"{name}, D = {key[1]}" if key[1] else name


def in_sentence(key: Key) -> str:
    """Return the full name of a model for the middle of a sentence.

    Examples
    --------
    >>> in_sentence((OURS, 512)), in_sentence((LINEAR, 0))
    ('quadrature features with D = 512', 'the linear model')
    """
    name = CONTESTANTS[key[0]].title
    if key[0] != NYSTROEM:
        name = name[0].lower() + name[1:]
    if key[1]:
        return f"{name} with D = {key[1]}"
    return f"the {name}" if key[0] in (GUESS, LINEAR, MODEL) else name


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
        OURS: "QuadratureFeatures",
        EXACT: "KernelRidge",
    }
    return names.get(name, name)


def explanation(name: str, task: Task, exact_rows: int) -> str:
    """Return one sentence about a model, for readers who do not know it."""
    kind = class_name(name, task)
    return {
        GUESS: (
            "Predicts the class frequencies and ignores all columns."
            if task == "classification"
            else "Predicts the mean of the target and ignores all columns."
        ),
        LINEAR: f"{kind} of scikit-learn on the prepared columns, without a kernel.",
        MODEL: (
            f"{kind} of quadfeat with default settings, on the raw columns: it learns kernels from "
            "the data, and chooses between features and nearest rows."
        ),
        OURS: (
            f"Ridge regression on {kind} of quadfeat. Cross-validation chooses the kernel, the "
            "rule and the number of features D."
        ),
        RBF_SAMPLER: f"Ridge regression on {kind} of scikit-learn, with a Gaussian kernel.",
        NYSTROEM: (
            f"Ridge regression on {kind} of scikit-learn, whose features are kernel values at "
            "sampled training rows."
        ),
        EXACT: (
            f"{kind} of scikit-learn: the kernel without approximation, trained on at most "
            f"{exact_rows} rows."
        ),
        HIST: f"{kind} of scikit-learn with default settings.",
        LIGHTGBM: f"{kind} of LightGBM with default settings.",
    }[name]
