"""From decrypted values to predictions: the last step of a fitted estimator, which the client computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import described

Floats = npt.NDArray[np.float64]
LINKS = ("identity", "exp")


@dataclass(frozen=True)
class Output:
    """How an estimator makes predictions and probabilities of its values.

    >>> nn.Output(link="exp").predict(np.array([[0.0], [1.0]]), None).round(3)  # two samples of one value
    array([1.   , 2.718])
    """

    #: "values": predictions of a regressor. "class": one of the classes, by the sign of one value or the largest of several.
    #: "labels": 0 or 1 for each value, by its sign.
    kind: str = "values"
    link: str = "identity"  #: of "values": "identity", or "exp" (the prediction is the exponential)
    #: "" (none), "logistic", "softmax", "ovr" (logistic of each value, divided by their sum) or "modified_huber" (of SGDClassifier)
    probability: str = ""
    column: bool = False  #: of one value: predictions have the shape (count, 1), not (count,)

    def require_fits(self, outputs: int, classes: npt.NDArray[Any] | None) -> None:
        """Raises ParameterError for rules that are not known, or do not fit each other, so many values and the classes.

        >>> nn.Output("class", probability="softmax").require_fits(3, np.arange(3))
        """
        several = ("softmax", "ovr") if outputs > 1 else ("logistic",)
        allowed = {"values": ("",), "labels": ("", "logistic"), "class": ("", "modified_huber", *several)}
        if self.kind not in allowed or self.link not in LINKS or self.probability not in allowed[self.kind]:
            raise _core.ParameterError(
                f"an output is of the kinds {', '.join(allowed)}, with a link {' or '.join(LINKS)} and probabilities that the kind has for "
                f"{outputs} values, not {described((self.kind, self.link, self.probability))}"
            )
        if (self.link != "identity" and self.kind != "values") or (self.column and (self.kind != "values" or outputs > 1)):
            raise _core.ParameterError(
                "a link and a column of predictions are for the kind values, and a column for one value"
            )
        wanted = None if self.kind == "values" else outputs if self.kind == "labels" or outputs > 1 else 2
        if (classes is None and self.kind == "class") or (classes is not None and len(classes) != wanted):
            raise _core.ParameterError(
                f"an output of the kind {self.kind} with {outputs} values must have {wanted or 'no'} classes, not "
                f"{'none' if classes is None else len(classes)}"
            )

    def predict(self, values: Floats, classes: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Predictions for values [..., outputs].

        >>> nn.Output("labels").predict(np.array([[0.5, -1.0, 2.0]]), None)
        array([[1, 0, 1]])
        """
        if self.kind == "labels":
            return np.asarray(values > 0).astype(np.int64)
        one = values.shape[-1] == 1
        if self.kind == "values":
            with np.errstate(over="ignore"):
                found = np.exp(values) if self.link == "exp" else values
            return np.asarray(found[..., 0] if one and not self.column else found)
        assert classes is not None
        chosen = (values[..., 0] > 0).astype(np.int64) if one else values.argmax(-1)
        return np.asarray(classes[chosen])

    def probabilities(self, values: Floats, name: str) -> Floats:
        """Probabilities [..., classes] for values [..., outputs]; of "labels" one for each label. Raises DtypeError.

        >>> nn.Output("class", probability="softmax").probabilities(np.array([[1.0, 1.0]]), "a judge")
        array([[0.5, 0.5]])
        """
        if not self.probability:
            raise _core.DtypeError(f"{name} has no probabilities")
        if self.probability == "softmax":
            raised = np.exp(values - values.max(-1, keepdims=True))
            return np.asarray(raised / raised.sum(-1, keepdims=True))
        huber = self.probability == "modified_huber"
        each = (np.clip(values, -1, 1) + 1) / 2 if huber else np.exp(-np.logaddexp(0, -values))
        if self.kind == "labels":
            return np.asarray(each)
        if values.shape[-1] == 1:
            return np.concatenate([1 - each, each], axis=-1)
        total = each.sum(-1, keepdims=True)
        if huber:  # with no value above -1 all classes are as likely
            each = np.where(total == 0, 1.0, each)
            total = each.sum(-1, keepdims=True)
        return np.asarray(each / total)
