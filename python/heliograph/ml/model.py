"""The interface of compiled models: keys, encryption, answers, and scikit-learn's methods on clear samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import array_of, complexes, described, text_of
from heliograph._common.html import HtmlRepr
from heliograph.keys import EvaluationKeys, SecretKey, Server
from heliograph.ml.outputs import Output

Floats = npt.NDArray[np.float64]


class Model(HtmlRepr, ABC):
    """A compiled model. `hg.ml.compile` makes one.

    `keys`, `encrypt`, the call and `decrypt` are the steps of an encrypted run. `predict`, `predict_proba`,
    `decision_function` and `score` take clear samples, as in scikit-learn, and simulate the run or, with ``fhe="execute"``,
    run it. `predictions` and `probabilities` take decrypted values.

    >>> isinstance(model, ml.Model)
    True
    """

    name: str  #: class of the estimator, or kind of the ensemble
    classes: npt.NDArray[Any] | None  #: classes, with the type that the estimator was fitted with; None for a regressor
    output: Output  #: mapping from values to predictions

    @property
    @abstractmethod
    def features(self) -> int:
        """Number of features of a sample."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of values of a sample: predictions, or decision values (one for two classes)."""

    @property
    @abstractmethod
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""

    @abstractmethod
    def encrypt(self, key: Any, samples: Any, *, unchecked: bool = False) -> Any:
        """Encrypts samples [count, features] by a secret or public key. Example: `hg.ml.EstimatorModel.encrypt`."""

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """Returns the encrypted values of an encrypted request."""

    @abstractmethod
    def decrypt(self, secret: Any, answer: Any, like: Any = None, *, unchecked: bool = False) -> Floats:
        """Returns the values [count, outputs] of an answer. Example: `hg.ml.EstimatorModel.decrypt`."""

    @abstractmethod
    def clear(self, samples: Any) -> Floats:
        """Returns the values [count, outputs] of clear samples, without the error of encryption.

        Example: `hg.ml.EstimatorModel.clear`.
        """

    @abstractmethod
    def simulate(self, samples: Any, *, seed: int = 0) -> Floats:
        """Returns the values [count, outputs] of clear samples, with random errors of the encrypted run's size.

        Example: `hg.ml.EstimatorModel.simulate`.
        """

    @abstractmethod
    def _execute(self, samples: Any) -> Floats:
        """Returns the values [count, outputs] of an encrypted run with new keys."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Classes, as scikit-learn names them. Raises DtypeError for a regressor."""
        if self.classes is None:
            raise _core.DtypeError(f"{self.name} has no classes: it predicts numbers")
        return self.classes

    def keys(self, secret: SecretKey[Any, Any]) -> EvaluationKeys[Any, Any]:
        """Makes the evaluation keys that the model needs. Raises DtypeError.

        >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
        >>> server = hg.Server(model.keys(secret))
        >>> model.decrypt(secret, model(server.bind(model.encrypt(secret, [[1, 3]]))), like=[[1, 3]]).round(3)
        array([[5.5]])
        """
        if not isinstance(secret, SecretKey):
            raise _core.DtypeError(f"keys are made by a secret key, not by {described(secret)}")
        made: EvaluationKeys[Any, Any] = secret.evaluation_keys(**self.needs)
        return made

    def predictions(self, values: Any) -> npt.NDArray[Any]:
        """Returns the predictions of values [count, outputs], in the shape and with the classes of the estimator.

        Raises DtypeError, ShapeError.

        >>> model.predictions([[5.5], [8.5]])
        array([5.5, 8.5])
        """
        return self.output.predict(self._values(values), self.classes)

    def probabilities(self, values: Any) -> Floats:
        """Returns the probabilities of the classes [count, classes], or of the labels, of values [count, outputs].

        Raises DtypeError if the estimator has no probabilities, ShapeError.

        >>> judge = ml.EstimatorModel("a judge", (layer,), np.array(["no", "yes"]), True, 8.0)
        >>> judge.predictions([[-1.0], [2.0]]).tolist(), judge.probabilities([[-1.0], [2.0]]).round(3).tolist()
        (['no', 'yes'], [[0.731, 0.269], [0.119, 0.881]])
        """
        return self.output.probabilities(self._values(values), self.name)

    def decision_function(self, samples: Any, *, fhe: str = "simulate") -> Floats:
        """Returns the values of clear samples: [count, outputs], or [count] for one output.

        `fhe` is "simulate", "execute" (an encrypted run with new keys, for tests) or "clear" (without any error). Raises
        the errors of `encrypt`, ParameterError.

        >>> model.decision_function([[1, 3]], fhe="clear")
        array([5.5])
        """
        values = self.output.decisions(self._run(samples, fhe))
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, samples: Any, *, fhe: str = "simulate") -> npt.NDArray[Any]:
        """Returns the predictions of clear samples [count, features]. `fhe` is as for `decision_function`.

        >>> model.predict([[1, 3], [2, 4]], fhe="execute").round(3)
        array([5.5, 8.5])
        """
        return self.predictions(self._run(samples, fhe))

    def predict_proba(self, samples: Any, *, fhe: str = "simulate") -> Floats:
        """Returns the probabilities of clear samples [count, features]. `fhe` is as for `decision_function`.

        >>> judge = ml.EstimatorModel("a judge", (layer,), np.array(["no", "yes"]), True, 8.0)
        >>> judge.predict_proba([[0, 0.5]], fhe="clear").round(3)
        array([[0.269, 0.731]])
        """
        return self.probabilities(self._run(samples, fhe))

    def score(self, samples: Any, targets: Any, *, fhe: str = "simulate") -> float:
        """Returns the share of samples with the right class or labels, or a regressor's R^2 (1 is perfect).

        R^2 of several targets is their mean. Raises ShapeError for another number of targets.

        >>> round(model.score([[1, 3], [2, 4]], [5.5, 8.5]), 3)
        1.0
        """
        found, right = self.predict(samples, fhe=fhe), array_of(targets, "targets")
        if found.shape != right.shape:
            raise _core.ShapeError(f"targets must have the shape of the predictions, {found.shape}, not {right.shape}")
        if self.output.kind != "values":
            return float(np.mean(np.asarray(found == right).reshape(len(found), -1).all(1)))
        found, right = (np.asarray(a, dtype=np.float64).reshape(len(found), -1) for a in (found, right))
        missed = ((right - found) ** 2).sum(0)
        spread = ((right - right.mean(0)) ** 2).sum(0)
        each = np.where(spread > 0, 1 - missed / np.where(spread > 0, spread, 1), np.where(missed > 0, 0.0, 1.0))
        return float(each.mean())

    def _run(self, samples: Any, fhe: str) -> Floats:
        how = text_of(fhe, "fhe", ("simulate", "execute", "clear"))
        if how == "clear":
            return self.clear(samples)
        return self.simulate(samples) if how == "simulate" else self._execute(samples)

    def _values(self, values: Any) -> Floats:
        decrypted = complexes(values, "decrypted values")[0].real
        if decrypted.ndim != 2 or decrypted.shape[1] != self.outputs:
            raise _core.ShapeError(
                f"values of {self.name} must be [samples, {self.outputs}], as decrypt returns them, not of shape "
                f"{decrypted.shape}; predict takes clear samples"
            )
        return decrypted


def served(keys: EvaluationKeys[Any, Any], request: Any) -> Any:
    """Returns a request bound to a new server: a tensor, or a tuple of several."""
    server: Server[Any] = Server(keys)
    return tuple(map(server.bind, request)) if isinstance(request, tuple) else server.bind(request)
