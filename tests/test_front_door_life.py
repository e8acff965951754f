"""Test kernel models with other sources of rows, in files, in plots, and in scikit-learn."""

import pickle
from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    ParquetBlocks,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    load,
    save,
)
from quadfeat.front_door import (
    FeaturesCandidate,
    Leaderboard,
    LeaderboardRow,
    MoreFeaturesCandidate,
)
from slow import slow

rng = np.random.default_rng(0)
N = 200
X = rng.standard_normal((N, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(N)
LABELS = np.array(["high", "low", "middle"])[np.digitize(y, [-0.7, 0.7])]
NEW = rng.standard_normal((50, 3))

GIVEN = {"kernel": "gaussian", "rule": "orf", "n_components": 60, "alpha": 1.0, "random_state": 0}
PROCESS = {"kernel": "gaussian", "n_neighbors": 20, "alpha": 0.05}
NUMBERS = [("ridge", QuadratureRidge(**GIVEN)), ("process", LocalGaussianProcess(**PROCESS))]
CLASSES = [
    ("ridge", QuadratureRidgeClassifier(**GIVEN)),
    ("process", LocalGaussianProcessClassifier(**PROCESS)),
]


def regressor(**settings):
    return KernelRegressor(**{"time_limit": None, "candidates": NUMBERS, **settings})


def classifier(**settings):
    return KernelClassifier(**{"time_limit": None, "candidates": CLASSES, **settings})


@pytest.fixture(scope="module")
def model():
    return regressor().fit(X, y)


@pytest.fixture(scope="module")
def class_model():
    return classifier().fit(X, LABELS)


class TestSources:
    """Only features serve streams, so the neighbors are left out."""

    STREAMED = KernelRegressor(
        None, candidates=["neighbors", FeaturesCandidate(64), "more features"]
    )

    @staticmethod
    def check_reason(model, kind):
        assert [row.name for row in model.leaderboard_] == [
            "features",
            "neighbors",
            "more features",
        ]
        assert model.leaderboard_[0].share == 1.0
        for row in model.leaderboard_[1:]:
            assert row.note == f"X is {kind}, of which no rows can be held out"
        assert "neighbors and more features left out" in model.why_

    def test_blocks(self):
        blocks = [(X[start : start + 50], y[start : start + 50]) for start in range(0, N, 50)]
        model = clone(self.STREAMED).fit(blocks)
        self.check_reason(model, "a stream of blocks")
        assert model.score(X, y) > 0.9
        assert model.score(blocks) == pytest.approx(model.score(X, y))
        lower, upper = model.predict_interval(NEW)
        assert (lower < upper).all()
        with pytest.raises(ValueError, match="groups has no effect on a stream"):
            model.fit(blocks, groups=np.arange(N))
        for unserved in (["neighbors"], [("line", Ridge())]):
            with pytest.raises(ValueError, match="X is a stream of blocks, which none of candid"):
                KernelRegressor(candidates=unserved).fit(blocks)

    def test_progress(self, capsys):
        blocks = [(X[start : start + 50], y[start : start + 50]) for start in range(0, N, 50)]
        door = KernelRegressor(None, candidates=[FeaturesCandidate(64)], verbose=True)
        door.fit(blocks)
        lines = capsys.readouterr().err
        assert "KernelRegressor: fitting features to a stream of blocks" in lines
        assert "kernel search: " in lines
        assert not door.model_.verbose
        door.set_params(verbose=False).fit(blocks)
        assert capsys.readouterr().err == ""

    def test_parquet(self, tmp_path):
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
        frame.to_parquet(tmp_path / "table.parquet")
        blocks = ParquetBlocks(tmp_path / "table.parquet", "y", rows_per_block=70, dtype="float64")
        model = clone(self.STREAMED).fit(blocks)
        self.check_reason(model, "a stream of blocks")
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.score(blocks) > 0.9
        assert model.relevance_.shape == (3,)

    @pytest.mark.parametrize("kind", ["list", "iterator", "parquet", "dask array", "dask frame"])
    def test_relevance_does_not_depend_on_units(self, kind, tmp_path):
        def fitted(factors):
            rows = X * factors
            frame = pd.DataFrame(rows, columns=["a", "b", "c"]).assign(y=y)
            frame.to_parquet(tmp_path / "table.parquet")
            blocks = [(rows[:0], y[:0]), (rows[:90], y[:90]), (rows[90:], y[90:])]
            lazy = dd.from_pandas(frame, npartitions=2)
            given = {
                "list": lambda: (blocks,),
                "iterator": lambda: (iter(blocks),),
                "parquet": lambda: (ParquetBlocks(tmp_path, "y", dtype="float64"),),
                "dask array": lambda: (da.from_array(rows, chunks=(90, 2)), y),
                "dask frame": lambda: (lazy[["a", "b", "c"]], lazy["y"]),
            }[kind]()
            with dask.config.set(scheduler="synchronous"):
                return KernelRegressor(None, candidates=[FeaturesCandidate(32)]).fit(*given)

        # Columns of comparable units have one more kernel to try, so use none.
        small, large = fitted(np.array([1e-3, 1.0, 1e3])), fitted(np.array([1e3, 1.0, 1e-3]))
        assert small.relevance_[0] > small.relevance_[1] > small.relevance_[2]
        assert_allclose(small.relevance_, large.relevance_, rtol=1e-5)

    def test_dask(self):
        with dask.config.set(scheduler="synchronous"):
            rows, targets = da.from_array(X, chunks=(80, 3)), da.from_array(y, chunks=80)
            model = clone(self.STREAMED).fit(rows, targets)
            self.check_reason(model, "a Dask collection")
            assert model.score(rows, targets) == pytest.approx(model.score(X, y))
            with pytest.raises(ValueError, match="X is a Dask collection, which none"):
                KernelRegressor(candidates=["neighbors"]).fit(rows, targets)

    def test_lazy_predictions(self, model, class_model):
        rows = da.from_array(NEW, chunks=(20, 3))
        with dask.config.set(scheduler="synchronous"):
            lazy = model.predict(rows)
            assert isinstance(lazy, da.Array)
            assert_array_equal(lazy.compute(), model.predict(NEW))
            for use in (
                lambda rows: model.predict(rows, return_std=True),
                lambda rows: model.predict_interval(rows, 0.8),
            ):
                for found, expected in zip(use(rows), use(NEW), strict=True):
                    assert_allclose(found.compute(), expected, rtol=1e-12)
            proba = class_model.predict_proba(rows)
            assert proba.shape == (50, 3)
            assert_allclose(proba.compute(), class_model.predict_proba(NEW), rtol=1e-12)
            assert_array_equal(class_model.predict(rows).compute(), class_model.predict(NEW))
            assert class_model.score(rows, da.from_array(LABELS[:50], chunks=20)) == (
                class_model.score(NEW, LABELS[:50])
            )

    def test_lazy_predictions_of_several_outputs(self):
        Y = np.column_stack([y, -y])
        others = [("line", Ridge()), ("forest", RandomForestRegressor(3, random_state=0))]
        rows = da.from_array(NEW, chunks=(20, 3))
        with dask.config.set(scheduler="synchronous"):
            for candidates in (NUMBERS, others):
                model = regressor(candidates=candidates).fit(X, Y)
                found = model.predict(rows)
                assert found.shape == (50, 2)
                assert_allclose(found.compute(), model.predict(NEW), rtol=1e-12)
                lower, _ = model.predict_interval(rows)
                assert_allclose(lower.compute(), model.predict_interval(NEW)[0], rtol=1e-12)

    def test_dask_frames_of_mixed_columns_are_predicted(self):
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=LABELS)
        model = regressor().fit(frame, y)
        with dask.config.set(scheduler="synchronous"):
            lazy = model.predict(dd.from_pandas(frame, npartitions=3))
            assert_array_equal(lazy.compute(), model.predict(frame))

    def test_memory_maps(self, tmp_path, model):
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        again = regressor().fit(mapped, y)
        assert_array_equal(again.predict(NEW), model.predict(NEW))
        assert len(again.leaderboard_) == len(model.leaderboard_)

    def test_tables_that_are_too_large_to_copy(self, monkeypatch):
        monkeypatch.setattr("quadfeat.front_door.fitting.MOST_ENTRIES", 3 * N - 1)
        model = KernelRegressor(None, candidates=["neighbors", FeaturesCandidate(64)]).fit(X, y)
        assert [row.name for row in model.leaderboard_] == ["features", "neighbors"]
        assert "X has more than 599 entries" in model.why_
        monkeypatch.setattr("quadfeat.front_door.candidates.MOST_ENTRIES", 300)
        monkeypatch.undo()


class TestCopies:
    @pytest.mark.parametrize("fitted", ["model", "class_model"])
    @pytest.mark.parametrize("how", ["pickle", "file"])
    def test_round_trip(self, fitted, how, request, tmp_path):
        ours = request.getfixturevalue(fitted)
        if how == "pickle":
            again = pickle.loads(pickle.dumps(ours))
        else:
            save(ours, tmp_path / "model")
            again = load(tmp_path / "model")
        assert_array_equal(again.predict(NEW), ours.predict(NEW))
        assert repr(again) == repr(ours)
        assert str(again.leaderboard_) == str(ours.leaderboard_)
        assert again.why_ == ours.why_
        targets = y if fitted == "model" else LABELS
        assert_array_equal(again.fit(X, targets).predict(NEW), ours.predict(NEW))

    def test_unfitted_models_in_files(self, tmp_path):
        for ours in (KernelRegressor(30, blend=False), classifier(class_weight={"high": 2.0})):
            save(ours, tmp_path / "model")
            assert repr(load(tmp_path / "model")) == repr(ours)

    def test_estimators_of_other_libraries_in_files(self, tmp_path):
        forest = RandomForestRegressor(3, random_state=0)
        other = regressor(candidates=[("forest", forest), ("line", Ridge())]).fit(X, y)
        with pytest.raises(ValueError, match=r"RandomForestRegressor.*cannot be saved"):
            save(other, tmp_path / "model")
        again = pickle.loads(pickle.dumps(other))
        assert_array_equal(again.predict(NEW), other.predict(NEW))

    def test_candidates_in_files(self, tmp_path):
        candidates = ["neighbors", FeaturesCandidate(32, rule="orf"), MoreFeaturesCandidate(64)]
        ours = KernelRegressor(None, candidates=candidates)
        save(ours, tmp_path / "model")
        assert load(tmp_path / "model").candidates == candidates
        assert clone(ours).candidates == candidates

    def test_clone_and_set_params(self, model):
        copy = clone(model)
        assert not hasattr(copy, "why_") or not copy.__sklearn_is_fitted__()
        assert repr(copy) == repr(model)
        copy.set_params(blend=False, time_limit=5)
        assert (copy.blend, copy.time_limit) == (False, 5)
        assert model.blend
        names = [name for name, _ in copy.candidates]
        assert names == ["ridge", "process"]
        assert copy.candidates[0][1] is not NUMBERS[0][1]
        with pytest.raises(ValueError, match="Invalid parameter"):
            copy.set_params(kernel="gaussian")

    @pytest.mark.parametrize("name", ["gamma", "alpha", "n_neighbors", "n_components"])
    def test_parameters_of_other_models(self, name):
        for kind in (KernelRegressor, KernelClassifier):
            with pytest.raises(TypeError, match=name):
                kind(**{name: 1})

    def test_refit_replaces_everything(self, model):
        other = clone(model).fit(X[:, :2], y)
        other.fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
        assert other.feature_names_in_.tolist() == ["a", "b", "c"]
        other.fit(X, y)
        assert not hasattr(other, "feature_names_in_")
        assert_array_equal(other.predict(NEW), model.predict(NEW))


class TestForgedFiles:
    @staticmethod
    def rejected(model, match, path, **changes):
        forged = pickle.loads(pickle.dumps(model))
        for name, value in changes.items():
            setattr(forged, name, value)
        with pytest.raises(ValueError, match=match):
            save(forged, path / "forged")

    def test_parts_that_do_not_fit(self, model, class_model, tmp_path):
        answer, mixture, board = model._answer, model._answer.mixture, model.leaderboard_
        first = mixture.models[0]
        fewer = clone(first).fit(X[:, :2], y)
        encoded = regressor().fit(pd.DataFrame({"a": X[:, 0], "b": LABELS}), y)
        for changes, match in (
            ({"mixture": None}, "mixture of _answer is a NoneType"),
            ({"leaderboard": ()}, "leaderboard of _answer is a tuple"),
            ({"why": 3}, "why of _answer is a int"),
            ({"encoder": first}, "encoder of _answer is a"),
            ({"scores": first}, "scores of _answer is a"),
            ({"spreads": np.ones(2)}, r"spreads of _answer has shape \(2,\), not \(3,\)"),
            ({"spreads": np.full(3, np.nan)}, "spreads of _answer is not finite"),
            ({"encoder": encoded.encoder_}, "encoder of _answer has 4 outputs"),
            ({"mixture": replace(mixture, models=())}, "0 models"),
            (
                {"mixture": replace(mixture, models=(3,), shares=(1.0,))},
                "model of _answer is a int",
            ),
            ({"mixture": replace(mixture, models=(first,), shares=(0.5,))}, "add up to 0.5"),
            ({"mixture": replace(mixture, models=(first,) * 2, shares=(2.0, -1.0))}, "share of"),
            ({"mixture": replace(mixture, models=(first, fewer), shares=(0.5, 0.5))}, "different"),
            ({"leaderboard": replace(board, rows=(3,))}, "item of leaderboard_ is a int"),
            ({"leaderboard": Leaderboard((LeaderboardRow(3),), "a", "b")}, "text of a row"),
            (
                {"leaderboard": Leaderboard((LeaderboardRow("a", "b"),), "a", "b")},
                "number of a row",
            ),
        ):
            self.rejected(model, match, tmp_path, _answer=replace(answer, **changes))
        self.rejected(model, "for 2 columns, but its parts for 3", tmp_path, n_features_in_=2)
        self.rejected(model, "_one_output is 3", tmp_path, _one_output=3)
        self.rejected(encoded, "for 3 columns, but its parts for 2", tmp_path, n_features_in_=3)
        two = regressor().fit(X, np.column_stack([y, y]))
        self.rejected(two, "scores of _answer are for 2 outputs", tmp_path, _one_output=True)
        for classes, match in (
            (np.array(["high", "low"]), "has classes that are not in classes_"),
            (np.array(["low", "high", "middle"]), "classes_ are not in ascending order"),
            (np.array([["high", "low", "middle"]]), "classes_ has shape"),
            ("high", "classes_ is a str"),
        ):
            self.rejected(class_model, match, tmp_path, classes_=classes)

    @pytest.mark.parametrize("name", ["n_features_in_", "_one_output", "classes_"])
    def test_missing_attributes(self, model, class_model, name, tmp_path):
        whole = class_model if name == "classes_" else model
        forged = pickle.loads(pickle.dumps(whole))
        delattr(forged, name)
        with pytest.raises((ValueError, AttributeError), match=name):
            save(forged, tmp_path / "forged")


class TestPresentation:
    def test_leaderboard(self, model):
        board = model.leaderboard_
        text = str(board).splitlines()
        assert text[0].split()[:2] == ["candidate", "share"]
        assert len(text) == 1 + len(board)
        frame = pd.DataFrame(board)
        assert frame["name"].tolist() == [row.name for row in board]
        assert frame["loss"].is_monotonic_increasing
        assert board[:1] == (board[0],)
        assert "<th>1 - R2</th>" in board._repr_html_()

    def test_html(self, model):
        text = model._repr_html_()
        assert "KernelRegressor" in text
        bundle = model._repr_mimebundle_()["text/html"]
        for row in model.leaderboard_:
            assert f"<td>{row.name}</td>" in bundle
        assert "<table>" not in clone(model)._repr_mimebundle_()["text/html"].split("</style>")[-1]
        odd = regressor(candidates=[("<script>", Ridge()), ("b", Ridge(2.0))]).fit(X, y)
        assert "&lt;script&gt;" in odd._repr_mimebundle_()["text/html"]

    def test_plots(self, model, class_model):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        for one in (model, class_model):
            first, second = one.plot()
            assert first.get_xlabel() == f"{one.leaderboard_.loss_name} on held-out rows"
            assert len(first.patches) == len(one.leaderboard_)
            assert len(second.patches) == 3
            given = pyplot.subplots(1, 2)[1]
            assert one.plot(given)[0] is given[0]
            pyplot.close("all")

    def test_documentation_names_each_parameter(self):
        for kind in (KernelRegressor, KernelClassifier):
            for name in kind().get_params():
                assert name in kind.__doc__


# Checks that kernel searches may fail: on tables of 15 rows with copies they depend on rounding,
# but the checks ask for seven digits. They also set `cv` to several folds, which refit=False
# rejects.
EXPLAINED = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


class TestScikitLearn:
    CONFIGURATIONS = (
        regressor(),
        classifier(candidates=[CLASSES[0], ("other", LogisticRegression())]),
        slow(regressor(refit=False, blend=False)),
        slow(regressor(candidates=NUMBERS[:1])),
        slow(classifier()),
        slow(classifier(refit=False, class_weight="balanced")),
        slow(classifier(candidates=CLASSES[:1])),
        slow(regressor(cv=3, scoring="neg_mean_absolute_error")),
        slow(classifier(scoring="accuracy")),
        slow(KernelRegressor(None)),
        slow(KernelClassifier(None)),
        slow(KernelRegressor(None, candidates=["features"])),
        slow(KernelClassifier(None, candidates=["features"])),
        slow(KernelRegressor(None, candidates=["neighbors"])),
        slow(KernelClassifier(None, candidates=["neighbors"])),
    )

    @pytest.mark.filterwarnings("ignore:.*was left out of the contest")
    @pytest.mark.filterwarnings("ignore:the weights of .* have infinite variance")
    @pytest.mark.parametrize("estimator", CONFIGURATIONS, ids=repr)
    def test_every_check(self, estimator):
        results = check_estimator(estimator, on_skip=None, on_fail=None)
        assert len(results) > 40
        failed = {
            result["check_name"]: result["exception"]
            for result in results
            if result["status"] not in ("passed", "skipped")
        }
        if not estimator.refit or not isinstance(estimator.candidates[0], tuple):
            failed = {name: error for name, error in failed.items() if name not in EXPLAINED}
        assert failed == {}

    def test_meta_estimators(self):
        assert cross_val_score(regressor(), X, y, cv=2).mean() > 0.7
        stack = StackingRegressor([("kernel", regressor()), ("line", Ridge())], cv=2).fit(X, y)
        assert stack.score(X, y) > 0.9
        search = GridSearchCV(regressor(), {"blend": [True, False]}, cv=2).fit(X, y)
        assert set(search.best_params_) == {"blend"}
        pipeline = make_pipeline(StandardScaler(), classifier()).fit(X, LABELS)
        assert pipeline.score(X, LABELS) > 0.8

    def test_a_door_inside_a_door(self):
        inner = regressor(blend=False)
        outer = regressor(candidates=[("door", inner), ("line", Ridge())], cv=2).fit(X, y)
        assert outer.leaderboard_[0].name.startswith(("door", "0."))

    def test_routing_of_metadata(self):
        from sklearn import config_context

        with config_context(enable_metadata_routing=True):
            model = regressor().set_fit_request(groups=True, sample_weight=True)
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            pipeline = make_pipeline(scaler, model)
            pipeline.fit(X, y, groups=np.arange(N) % 20, sample_weight=np.ones(N))
            assert pipeline.score(X, y) > 0.9

    def test_tags(self):
        for ours in (regressor(), classifier()):
            tags = ours.__sklearn_tags__()
            assert tags.input_tags.sparse
            assert tags.input_tags.allow_nan
            assert tags.input_tags.string
            assert tags.input_tags.categorical
            assert tags.target_tags.required
        assert regressor().__sklearn_tags__().target_tags.multi_output

    def test_candidates_of_scikit_learn_only(self):
        lines = [("a", LogisticRegression()), ("b", LogisticRegression(C=0.01))]
        model = classifier(candidates=lines).fit(X, LABELS)
        assert model.relevance_.tolist() == [0, 0, 0]
        assert model.predict_proba(NEW).shape == (50, 3)
