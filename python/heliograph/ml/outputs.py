"""The last step of a fitted estimator, which the client computes: predictions of decrypted values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import described

Floats = npt.NDArray[np.float64]
LINKS = ("identity", "exp", "logistic", "signed_square")


@dataclass(frozen=True)
class Output:
    """The mapping from an estimator's values to predictions and probabilities.

    >>> ml.Output(link="exp").predict(np.array([[0.0], [1.0]]), None).round(3)  # two samples of one value
    array([1.   , 2.718])
    """

    #: "values": predictions of a regressor. "class": one of the classes, by the sign of one value or the largest of several.
    #: "labels": 0 or 1 for each value, 1 above `offset`. "outlier": 1, or -1 if -2^-value is below `offset`
    #: (IsolationForest).
    kind: str = "values"
    #: for "values", the function of a prediction: "identity", "exp", "logistic" or "signed_square" (x |x|)
    link: str = "identity"
    #: "" (none), "logistic", "softmax", "ovr" (logistic of each value, divided by their sum) or "modified_huber"
    #: (SGDClassifier). Trees also have "each" (logistic of each value, as LightGBM's multiclassova) and "average": values
    #: are probabilities, and one value is the second less the first. For "labels" and "average" each value is the
    #: probability of its label.
    probability: str = ""
    column: bool = False  #: whether predictions of one value have the shape (count, 1) instead of (count,)
    scale: float = 1.0  #: factor of values before "logistic", "softmax" or "ovr"
    offset: float = 0.0  #: for "outlier" and "labels": the threshold

    def require_fits(self, outputs: int, classes: npt.NDArray[Any] | None) -> None:
        """Raises ParameterError if the mapping is unknown, inconsistent, or does not fit the number of values and the
        classes.

        >>> ml.Output("class", probability="softmax").require_fits(3, np.arange(3))
        """
        several = ("softmax", "ovr", "each") if outputs > 1 else ("logistic",)
        allowed = {
            "values": ("",),
            "labels": ("", "logistic", "average"),
            "class": ("", "modified_huber", "average", *several),
            "outlier": ("",),
        }
        if self.kind not in allowed:
            raise _core.ParameterError(f"an output's kind must be one of {', '.join(allowed)}, got {described(self.kind)}")
        if self.link not in LINKS:
            raise _core.ParameterError(f"an output's link must be {' or '.join(LINKS)}, got {described(self.link)}")
        if self.probability not in allowed[self.kind]:
            choices = " or ".join(repr(name) for name in allowed[self.kind])
            raise _core.ParameterError(
                f"the probability of an output of kind {self.kind} with {outputs} values must be {choices}, got "
                f"{described(self.probability)}"
            )
        if self.link != "identity" and self.kind != "values":
            raise _core.ParameterError(
                f"an output of kind {self.kind} must have the link identity, got {self.link}; the kind values allows others"
            )
        if self.column and (self.kind != "values" or outputs > 1):
            raise _core.ParameterError(
                "an output with column=True must have the kind values and one value, got the kind "
                f"{self.kind} and {outputs} values"
            )
        if not 0 < self.scale < np.inf or not np.isfinite(self.offset):
            raise _core.ParameterError(
                f"the scale of an output must be a finite number above 0, and the offset finite, got {self.scale} and "
                f"{self.offset}"
            )
        if self.kind == "outlier" and outputs != 1:
            raise _core.ParameterError(f"an output of kind outlier must have one value, got {outputs}")
        class_count = None if self.kind in ("values", "outlier") else outputs if self.kind == "labels" or outputs > 1 else 2
        if (classes is None and self.kind == "class") or (classes is not None and len(classes) != class_count):
            raise _core.ParameterError(
                f"an output of kind {self.kind} with {outputs} values must have {class_count or 'no'} classes, got "
                f"{'none' if classes is None else len(classes)}"
            )

    def ties(self, values: Floats, error: float) -> npt.NDArray[np.bool_]:
        """Tells which classes of values [count, outputs] depend on errors of at most `error`.

        >>> ml.Output("class").ties(np.array([[0.1], [1e-9]]), 1e-6)
        array([False,  True])
        """
        if self.kind != "class":
            return np.zeros(len(values), dtype=np.bool_)
        if values.shape[1] == 1:
            return np.asarray(np.abs(values[:, 0]) <= error)
        ordered = np.sort(values, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2] <= 2 * error)

    def without_ties(self, values: Floats, error: float) -> Floats:
        """Returns values [count, outputs] of classes in which differences of at most `error` are equalities.

        `predict` then takes the first class of a tie, as the libraries do.

        >>> ml.Output("class").without_ties(np.array([[0.1, 0.1 + 1e-9]]), 1e-6)
        array([[0.1, 0.1]])
        """
        if self.kind != "class":
            return values
        if values.shape[1] == 1:
            return np.where(np.abs(values) <= error, 0.0, values)
        largest = values.max(1, keepdims=True)
        equal = np.where(values >= largest - 2 * error, values, np.inf).min(1, keepdims=True)
        return np.where(values >= largest - 2 * error, equal, values)

    def predict(self, values: Floats, classes: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Returns predictions for values [..., outputs].

        >>> ml.Output("labels").predict(np.array([[0.5, -1.0, 2.0]]), None)
        array([[1, 0, 1]])
        """
        if self.kind == "labels":
            return np.asarray(values > self.offset).astype(np.int64)
        one = values.shape[-1] == 1
        if self.kind == "outlier":
            return np.where(self.decisions(values)[..., 0] < 0, -1, 1)
        if self.kind == "values":
            results = _linked(values, self.link)
            return np.asarray(results[..., 0] if one and not self.column else results)
        assert classes is not None
        indices = (values[..., 0] > 0).astype(np.int64) if one else values.argmax(-1)
        return np.asarray(classes[indices])

    def decisions(self, values: Floats) -> Floats:
        """Returns scikit-learn's decision values [..., outputs] for values [..., outputs].

        >>> ml.Output("outlier", offset=-0.5).decisions(np.array([[1.0], [2.0]]))
        array([[0.  ],
               [0.25]])
        """
        return -np.exp2(-values) - self.offset if self.kind == "outlier" else values

    def probabilities(self, values: Floats, name: str) -> Floats:
        """Returns probabilities [..., classes] for values [..., outputs]; for "labels" one probability for each label.

        `name` is the estimator's name in the error. Raises DtypeError if there are no probabilities.

        >>> ml.Output("class", probability="softmax").probabilities(np.array([[1.0, 1.0]]), "a judge")
        array([[0.5, 0.5]])
        """
        if not self.probability:
            raise _core.DtypeError(f"{name} has no probabilities")
        if self.kind == "labels" and self.probability == "average":
            return np.clip(values, 0, 1)
        if self.probability == "average":
            values = np.clip(values, -1 if values.shape[-1] == 1 else 0, 1)  # errors of CKKS may lead beyond
            if values.shape[-1] == 1:
                return np.concatenate([(1 - values) / 2, (1 + values) / 2], axis=-1)
            sums = values.sum(-1, keepdims=True)
            return np.asarray(values / np.where(sums > 0, sums, 1.0))
        values = self.scale * values
        if self.probability == "softmax":
            raised = np.exp(values - values.max(-1, keepdims=True))
            return np.asarray(raised / raised.sum(-1, keepdims=True))
        huber = self.probability == "modified_huber"
        each = (np.clip(values, -1, 1) + 1) / 2 if huber else np.exp(-np.logaddexp(0, -values))
        if self.kind == "labels":
            return np.asarray(each)
        if self.probability == "each":
            return np.asarray(each)
        if values.shape[-1] == 1:
            return np.concatenate([1 - each, each], axis=-1)
        total = each.sum(-1, keepdims=True)
        if huber:  # without a value above -1 all classes are equally likely
            each = np.where(total == 0, 1.0, each)
            total = each.sum(-1, keepdims=True)
        return np.asarray(each / total)


def _linked(values: Floats, link: str) -> Floats:
    with np.errstate(over="ignore"):
        if link == "exp":
            return np.asarray(np.exp(values))
    if link == "logistic":
        return np.asarray(np.exp(-np.logaddexp(0, -values)))
    return np.asarray(values * np.abs(values)) if link == "signed_square" else values
