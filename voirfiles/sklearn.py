"""scikit-learn: fits and predictions, with their samples; `partial_fit` in steps.

The outermost estimator counts: what a pipeline or a search fits and predicts inside is a part of it, except
that the scoring of a search's candidates is evaluation. Rounds of gradient boosting and of AdaBoost are
steps, and so are the trees of HistGradientBoosting and the updates of a neural network. `grow` is a tree,
`candidate` one of a search on one fold. A search is a study, whose trials are its candidates.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from injector.voirfiles._between import Between

LIBRARY = "sklearn"
TESTED = ("1.3", "1.9")

WHOLE = "estimator"
"""Shared with LightGBM, XGBoost and CatBoost: of all regions with this word only the outermost counts."""

PREDICTION_METHODS = {
    # Subclasses inherit these. A class whose `predict` calls its own `decision_function` or `predict_proba`,
    # which is listed as well, is measured as a whole.
    "sklearn.calibration/CalibratedClassifierCV": "predict predict_proba",
    "sklearn.cluster._birch/Birch": "predict",
    "sklearn.cluster._kmeans/_BaseKMeans": "predict",
    "sklearn.compose._target/TransformedTargetRegressor": "predict",
    "sklearn.cross_decomposition._pls/_PLS": "predict",
    "sklearn.discriminant_analysis/LinearDiscriminantAnalysis": "predict_proba",
    "sklearn.ensemble._bagging/BaggingClassifier": "predict predict_proba",
    "sklearn.ensemble._bagging/BaggingRegressor": "predict",
    "sklearn.ensemble._forest/ForestClassifier": "predict predict_proba",
    "sklearn.ensemble._forest/ForestRegressor": "predict",
    "sklearn.ensemble._gb/GradientBoostingClassifier": "predict predict_proba",
    "sklearn.ensemble._gb/GradientBoostingRegressor": "predict",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting/HistGradientBoostingClassifier": (
        "predict predict_proba"
    ),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting/HistGradientBoostingRegressor": (
        "predict"
    ),
    "sklearn.ensemble._iforest/IsolationForest": "predict score_samples decision_function",
    "sklearn.ensemble._stacking/StackingClassifier": "predict predict_proba",
    "sklearn.ensemble._stacking/_BaseStacking": "predict",
    "sklearn.ensemble._voting/VotingClassifier": "predict predict_proba",
    "sklearn.ensemble._voting/VotingRegressor": "predict",
    "sklearn.ensemble._weight_boosting/AdaBoostClassifier": "predict predict_proba",
    "sklearn.ensemble._weight_boosting/AdaBoostRegressor": "predict",
    "sklearn.gaussian_process._gpc/GaussianProcessClassifier": "predict predict_proba",
    "sklearn.gaussian_process._gpr/GaussianProcessRegressor": "predict",
    "sklearn.kernel_ridge/KernelRidge": "predict",
    "sklearn.linear_model._base/LinearClassifierMixin": "predict decision_function",
    "sklearn.linear_model._base/LinearModel": "predict",
    "sklearn.linear_model._glm.glm/_GeneralizedLinearRegressor": "predict",
    "sklearn.linear_model._logistic/LogisticRegression": "predict_proba",
    "sklearn.linear_model._ridge/_RidgeClassifierMixin": "predict",
    "sklearn.linear_model._stochastic_gradient/BaseSGDRegressor": "predict",
    "sklearn.linear_model._stochastic_gradient/SGDClassifier": "predict_proba",
    "sklearn.mixture._base/BaseMixture": "predict predict_proba score_samples",
    "sklearn.model_selection._search/BaseSearchCV": "predict predict_proba decision_function",
    "sklearn.multiclass/OneVsOneClassifier": "predict",
    "sklearn.multiclass/OneVsRestClassifier": "predict predict_proba",
    "sklearn.multioutput/MultiOutputClassifier": "predict_proba",
    "sklearn.multioutput/_MultiOutputEstimator": "predict",
    "sklearn.naive_bayes/_BaseNB": "predict predict_proba",
    "sklearn.neighbors._classification/KNeighborsClassifier": "predict predict_proba",
    "sklearn.neighbors._lof/LocalOutlierFactor": "predict score_samples decision_function",
    "sklearn.neighbors._nearest_centroid/NearestCentroid": "predict",
    "sklearn.neighbors._regression/KNeighborsRegressor": "predict",
    "sklearn.neural_network._multilayer_perceptron/MLPClassifier": "predict predict_proba",
    "sklearn.neural_network._multilayer_perceptron/MLPRegressor": "predict",
    "sklearn.pipeline/Pipeline": "predict predict_proba decision_function score score_samples",
    "sklearn.svm._base/BaseLibSVM": "predict",
    "sklearn.svm._base/BaseSVC": "predict decision_function",
    "sklearn.svm._classes/OneClassSVM": "predict score_samples decision_function",
    "sklearn.tree._classes/BaseDecisionTree": "predict",
    "sklearn.tree._classes/DecisionTreeClassifier": "predict_proba",
}


GENERATORS = (
    "make_classification make_multilabel_classification make_hastie_10_2 make_regression make_blobs "
    "make_friedman1 make_friedman2 make_friedman3 make_low_rank_matrix make_gaussian_quantiles"
)
"""Functions that make large data sets."""

OLD_LOSSES = {
    "BinomialDeviance": "negative_gradient",
    "ExponentialLoss": "negative_gradient",
    "HuberLossFunction": "negative_gradient",
    "LeastAbsoluteError": "negative_gradient",
    "LeastSquaresError": "negative_gradient update_terminal_regions",
    "LossFunction": "update_terminal_regions",
    "MultinomialDeviance": "negative_gradient",
    "QuantileLossFunction": "negative_gradient",
}
"""The methods of boosting's own losses, up to scikit-learn 1.3."""

OF_SELF = {"of": lambda self: type(self), "what": lambda self: type(self).__name__}


def instrument_fit(ov: Any) -> None:
    """``fit``, and a step for each ``partial_fit``."""
    # Every `fit`, `fit_transform` and `partial_fit` of scikit-learn is decorated by this wrapper.
    wrapper = "/sklearn.base/_fit_context/decorator/wrapper"
    about = {
        "items": lambda args, kwargs: rows(args[0] if args else kwargs.get("X")),
        "of": lambda estimator: type(estimator),
        "what": lambda estimator: type(estimator).__name__,
    }
    ov.region(
        wrapper,
        "fit",
        when=lambda estimator, fit_method: not _is_step(estimator, fit_method),
        outermost=WHOLE,
        **about,
    )
    ov.step(
        wrapper,
        when=_is_step,
        items=about["items"],
        outermost=WHOLE,
    )
    ov.region(
        wrapper,
        "fit",
        when=_is_step,
        outermost="partial_fit",  # the step is the outermost estimator already
        **about,
    )


def _is_step(estimator: Any, fit_method: Any) -> bool:
    """Whether a model learns from one more batch; scalers have ``partial_fit``, too, but do not predict."""
    return fit_method.__name__ == "partial_fit" and hasattr(type(estimator), "predict")


def instrument_transform(ov: Any) -> None:
    """``transform``, and ``fit`` of what is fitted by ``fit_transform``."""
    about = {"items": lambda X: rows(X), "outermost": WHOLE, **OF_SELF}
    ov.region("/sklearn.base/TransformerMixin/fit_transform", "fit", **about)
    # This wraps every `transform` and `fit_transform` of a class with `set_output`.
    ov.region(
        "/sklearn.utils._set_output/_wrap_method_output/wrapped",
        "transform",
        when=lambda method: method == "transform",
        **about,
    )


def instrument_predict(ov: Any) -> None:
    """``predict`` and ``score``."""
    about = {"phase": "eval", "items": lambda X: rows(X), "outermost": WHOLE, **OF_SELF}
    for where, methods in PREDICTION_METHODS.items():
        for method in methods.split():
            ov.region(f"/{where}/{method}", "score" if method == "score" else "predict", **about)
    for mixin in ("ClassifierMixin", "RegressorMixin"):
        ov.region(f"/sklearn.base/{mixin}/score", "score", **about)


def instrument_search(ov: Any) -> None:
    """``candidate``: a search's candidate on one fold, or a fold of ``cross_validate``, is fitted and scored.

    ``evaluation`` is the scoring in it.
    """
    validation = "/sklearn.model_selection._validation"
    ov.region(f"{validation}/_fit_and_score", "candidate", items=lambda train: rows(train))
    ov.region(
        f"{validation}/_score",
        "evaluation",
        phase="eval",
        items=lambda X_test: rows(X_test),
        outermost=True,
    )


def instrument_studies(ov: Any) -> None:
    """A search is a study; a candidate is a trial, whose parts are its folds."""
    search = "/sklearn.model_selection._search/BaseSearchCV"
    fold = "/sklearn.model_selection._validation/_fit_and_score"
    ov.region(f"{search}/fit", "study", what=lambda self: type(self).__name__)
    halving = "/sklearn.model_selection._search_successive_halving/BaseSuccessiveHalving"
    for base in (search, halving):
        ov.region(f"{base}/_select_best_index", "best")
    Between(ov, "refit", f"{search}/fit > refit_start_time", f"{search}/fit > refit_end_time")
    Between(ov, "train", f"{fold} > y_test", f"{fold} > fit_time")

    def fitted(self: Any, _: Any) -> None:
        # The metric that candidates are compared by; it may be a function without a name.
        metric = next((word for word in (self.refit, self.scoring) if isinstance(word, str)), None)
        best = getattr(self, "best_index_", None)
        best = None if best is None else int(best)
        ov.record_study("sklearn", metric=metric, best=best, goals=["maximize"])

    folds: dict[int, dict[str, Any]] = {}
    """By thread, the trial's part that it fits and scores; a fold of `cross_validate` is none."""

    def begins(parameters: Any, candidate_progress: Any, split_progress: Any) -> None:
        folds.pop(get_ident(), None)
        if candidate_progress is not None:
            facts = {
                "goals": ["maximize"],
                "number": candidate_progress[0],
                "of": candidate_progress[1],
                "part": split_progress[0],
                "parts": split_progress[1],
                "params": parameters,
            }
            folds[get_ident()] = facts
            ov.record_trial("sklearn", state="running", **facts)

    def scored(result: Any) -> None:
        facts = folds.pop(get_ident(), None)
        if facts is not None:
            error = result.get("fit_error")
            ov.record_trial(
                "sklearn",
                values=result["test_scores"],
                state="complete" if error is None else "failed",
                error=None if error is None else str(error).strip().rpartition("\n")[2],
                **facts,
            )

    def raised(error: Any) -> Any:
        facts = folds.pop(get_ident(), None)
        if facts is not None:
            text = ": ".join(filter(None, (type(error).__name__, str(error))))
            ov.record_trial("sklearn", state="failed", error=text, **facts)
        return error

    ov.value(f"{search}/fit", "searches", get=lambda self, result: fitted(self, result))
    ov.value(fold, "begun", get=begins)
    ov.value(fold, "folds", get=scored)
    ov.override(f"{fold} > #error", raised)


def instrument_workers(ov: Any) -> None:
    """``deploy`` and ``undeploy``: joblib's workers of a search are started and ended; one job has none."""
    for function, region in (
        ("_initialize_backend", "deploy"),
        ("_terminate_and_reset", "undeploy"),
    ):
        ov.region(
            f"/joblib.parallel/Parallel/{function}",
            region,
            when=lambda self: self.n_jobs not in (None, 1),
            what="joblib",
        )


def instrument_generators(ov: Any) -> None:
    """``generate``: functions that make data sets."""
    for name in GENERATORS.split():
        ov.region(
            f"/sklearn.datasets._samples_generator/{name}",
            "generate",
            items=lambda n_samples: n_samples if isinstance(n_samples, int) else 0,
            outermost=True,
        )


def instrument_trees(ov: Any) -> None:
    """``grow``: each tree of a forest, and single trees."""
    about = {"items": lambda X: rows(X), "outermost": True}
    ov.region("/sklearn.ensemble._forest/_parallel_build_trees", "grow", **about)
    ov.region("/sklearn.tree._classes/BaseDecisionTree/_fit", "grow", **about)


def instrument_rounds(ov: Any) -> None:
    """A step for each round of gradient boosting and of AdaBoost; ``gradients`` and ``leaves`` in it."""
    ov.step("/sklearn.ensemble._gb/BaseGradientBoosting/_fit_stage", items=lambda X: rows(X))
    for name in ("AdaBoostClassifier", "AdaBoostRegressor"):
        ov.step(f"/sklearn.ensemble._weight_boosting/{name}/_boost", items=lambda X: rows(X))

    def loaded(module: Any) -> None:
        if hasattr(module, "_update_terminal_regions"):  # since 1.4
            ov.region("/sklearn.ensemble._gb/_update_terminal_regions", "leaves")

    ov.after_import("sklearn.ensemble._gb", loaded)
    for loss, methods in OLD_LOSSES.items():
        for method in methods.split():
            name = "leaves" if method == "update_terminal_regions" else "gradients"
            ov.region(f"/sklearn.ensemble._gb_losses/{loss}/{method}", name)
    for function in ("gradient", "gradient_hessian"):
        ov.region(f"/sklearn._loss.loss/BaseLoss/{function}", "gradients")


def instrument_histograms(ov: Any) -> None:
    """A step for each tree of HistGradientBoosting; ``dataset`` and ``evaluation`` beside them.

    A round is no call but the turn of a loop, which may grow several trees.
    """
    package = "/sklearn.ensemble._hist_gradient_boosting"
    boosting = f"{package}.gradient_boosting/BaseHistGradientBoosting"
    ov.region(f"{boosting}/_bin_data", "dataset", items=lambda X: rows(X))
    ov.step(f"{package}.grower/TreeGrower/grow", items=lambda self: rows(self.X_binned))
    ov.region(f"{package}.grower/TreeGrower/grow", "grow", outermost=True)
    for function in ("_check_early_stopping_loss", "_check_early_stopping_scorer"):
        ov.region(
            f"{boosting}/{function}",
            "evaluation",
            phase="eval",
            items=lambda y_val: rows(y_val) if y_val is not None else 0,
            outermost=True,
        )


def instrument_networks(ov: Any) -> None:
    """``forward``, ``backward`` and ``optimizer`` of neural networks, and their ``evaluation``."""
    network = "/sklearn.neural_network._multilayer_perceptron/BaseMultilayerPerceptron"
    ov.region(
        f"{network}/_forward_pass",  # only training calls this one
        "forward",
        phase="train",
        items=lambda activations: rows(activations[0]),
    )
    Between(ov, "backward", f"{network}/_backprop > last", f"{network}/_backprop > #value")
    ov.region(
        "/sklearn.neural_network._stochastic_optimizers/BaseOptimizer/update_params",
        "optimizer",
        of=lambda self: self,
        what=lambda self: type(self).__name__,
    )
    ov.region(
        f"{network}/_update_no_improvement_count",  # after each epoch
        "evaluation",
        phase="eval",
        when=lambda early_stopping: bool(early_stopping),
        outermost=True,
    )


def rows(data: Any) -> int:
    """The number of samples of an array, a frame or a list; 0 of anything else."""
    shape = getattr(data, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(data) if hasattr(data, "__len__") else 0
