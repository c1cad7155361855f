"""Models that scikit-learn has fitted, on encrypted features: linear ones and multilayer perceptrons, by CKKS.

A feature lies in a ciphertext, a sample in each slot: a layer is one matrix product along the ciphertexts, without rotations, and
takes as long for one sample as for all the slots hold. Only attributes of the estimators are read: scikit-learn is not imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._arrays import array_of, complexes, count_of, described, flag, real, text_of
from heliograph._html import Rows, Shown
from heliograph._sealing import seal
from heliograph.functions import matmul
from heliograph.nn.ranges import (
    Check,
    Floats,
    Ranges,
    calibrated,
    image,
    of_bound,
    of_features,
    of_layers,
    polynomial_image,
    proven_share,
    room_of,
)

#: Those whose predictions are a matrix product: regressors, and classifiers by the largest product.
_REGRESSORS = frozenset(
    (
        *(
            "LinearRegression",
            "Ridge",
            "RidgeCV",
            "Lasso",
            "LassoCV",
            "ElasticNet",
            "ElasticNetCV",
            "SGDRegressor",
            "LinearSVR",
        ),
        *("HuberRegressor", "BayesianRidge", "ARDRegression"),
    )
)
_CLASSIFIERS = frozenset(
    (
        *(
            "LogisticRegression",
            "LogisticRegressionCV",
            "RidgeClassifier",
            "RidgeClassifierCV",
            "LinearSVC",
            "SGDClassifier",
        ),
        *("Perceptron", "LinearDiscriminantAnalysis"),
    )
)
_PERCEPTRONS = frozenset(("MLPClassifier", "MLPRegressor"))
_AFFINE = frozenset(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "PCA"))  # steps before them
_PROBABLE = frozenset(("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis", "MLPClassifier"))
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
}
_MORE_ROOM = 64  # 6 bits, which most parameter sets have free
_GRID, _GRID_WEIGHT, _SAMPLES = 512, 0.02, 50_000  # of a fit: beside the calibration data, evenly over the interval


@dataclass(frozen=True)
class Activation:
    """A polynomial in place of a function, on the interval of what the calibration data gave.

    >>> square = nn.Activation("square", -2.0, 2.0, (2.0, 0.0, 2.0), 0.0, 0.0)
    >>> square.degree, square.depth
    (2, 2)
    """

    name: str
    low: float
    high: float
    coefficients: tuple[float, ...]  #: of Chebyshev polynomials on that interval
    largest_error: float  #: on the calibration data
    mean_error: float  #: root of the mean square there

    @property
    def degree(self) -> int:
        """Of the polynomial."""
        return len(self.coefficients) - 1

    @property
    def depth(self) -> int:
        """Levels that it takes."""
        return ckks.polynomial_depth(self.degree)


@dataclass(frozen=True)
class Dense:
    """A matrix product and what is done to its outputs. Those of an activation come in [-1, 1], its interval.

    >>> layer.clear(np.array([[1.0], [3.0]]))
    array([[5.5]])
    """

    weight: Floats  #: [outputs, inputs]
    bias: Floats
    activation: Activation | None = None

    def clear(self, x: Floats) -> Floats:
        """Of x [inputs, samples].

        >>> layer.clear(np.array([[1.0, 2.0], [3.0, 4.0]]))  # two samples of two features
        array([[5.5, 8.5]])
        """
        z: Floats = self.weight @ array_of(x, "samples") + self.bias[:, None]
        if self.activation is None:
            return z
        return np.asarray(np.polynomial.chebyshev.chebval(z, self.activation.coefficients), dtype=np.float64)

    def encrypted(self, x: ckks.Tensor) -> ckks.Tensor:
        """The same of a tensor (inputs,). An activation's argument counts as within [-1, 1]: `Model.encrypt` checks samples.

        >>> secret = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=2))
        >>> x = secret.encrypt([[1, 2], [3, 4]])
        >>> secret.decrypt(layer.encrypted(x)).round(3)
        array([[5.5, 8.5]])
        """
        z = matmul(self.weight, x, self.bias, axis=0)
        if self.activation is None:
            return z
        # Worst-case bounds of z exceed 1. The model vouches for 1: its clients refuse samples that leave the calibrated interval.
        return ckks.polynomial(ckks.within(z, 1), list(self.activation.coefficients), "chebyshev")


@dataclass(frozen=True)
class Report(Shown):
    """How near a model is to the estimator it was made of, on the calibration data, before any encryption.

    >>> print(nn.Report(150, 0.25, 0.125, 0.98))
       calibration  150 samples
             error  0.25 at most, 0.12 in the root mean square
        same class  98.00%
    """

    samples: int
    largest_error: float  #: of a prediction, or of a classifier's decision value
    mean_error: float  #: root of the mean square
    agreement: float | None  #: share of samples of the same class; None for regressors
    activations: tuple[Activation, ...] = field(default=())

    def _rows(self) -> Rows:
        rows = [
            ("calibration", f"{self.samples:,} samples"),
            ("error", f"{self.largest_error:.2g} at most, {self.mean_error:.2g} in the root mean square"),
        ]
        if self.agreement is not None:
            rows.append(("same class", f"{100 * self.agreement:.2f}%"))
        for number, a in enumerate(self.activations, start=1):
            rows.append(
                (
                    f"layer {number}",
                    f"{a.name} on [{a.low:.3g}, {a.high:.3g}] by degree {a.degree}: error {a.largest_error:.2g} at most, "
                    f"{a.mean_error:.2g} in the root mean square",
                )
            )
        return rows

    def __str__(self) -> str:
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())


class Model(Shown):
    """A fitted estimator for encrypted features. Made by `from_sklearn`; called with a tensor of shape (features,).

    >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
    >>> x = model.encrypt(secret, [[1, 3], [2, 4]])  # two samples of two features
    >>> model.predict(secret.decrypt(model(x))).round(3)
    array([5.5, 8.5])
    """

    def __init__(
        self,
        name: str,
        layers: tuple[Dense, ...],
        classes: npt.NDArray[Any] | None,
        probable: bool,
        largest: float,
        *,
        ranges: Ranges | None = None,
        complete: bool = True,
    ) -> None:
        self.name = name
        self.layers = layers
        #: The classes in the order of decision values; None of a regressor.
        self.classes = classes
        self._probable = probable
        #: Of the features; None if the model was made without calibration data.
        self.ranges = ranges
        self._reach = 2 * largest if ranges is None else ranges.reach  # of inputs and results
        self._complete = complete  # false of a client's half, whose weights are zeros
        self.report = Report(0, 0.0, 0.0, None)

    @property
    def features(self) -> int:
        """Ciphertexts that it takes."""
        return int(self.layers[0].weight.shape[1])

    @property
    def outputs(self) -> int:
        """Ciphertexts that it gives: predictions, or decision values (one of two classes)."""
        return int(self.layers[-1].weight.shape[0])

    @property
    def depth(self) -> int:
        """Levels that it takes."""
        return sum(1 + (0 if layer.activation is None else layer.activation.depth) for layer in self.layers)

    def parameters(self, *, precision: int = 25, samples: int = 0) -> ckks.Parameters:
        """The smallest set of CKKS for it: with `precision` bits after the point in each product, and slots for so many samples.

        Inputs and results may be twice as large as the calibration data made them; `encrypt` refuses samples with larger ones.
        Evaluation keys need no rotations. Raises ParameterError.

        >>> found = model.parameters(samples=2)
        >>> found.security, found.slots
        ('128-bit', 2)
        """
        bits = max(1, math.ceil(math.log2(max(self._reach / 2, 1.0)))) + 1
        count = count_of(samples, "samples")
        slots = 1 << (count - 1).bit_length() if count else 0  # so many are repeated, and no place is empty
        return ckks.parameters(depth=self.depth, precision=precision, integer_bits=bits, slots=slots)

    def encrypt(self, key: ckks.SecretKey | ckks.PublicKey, samples: Any, *, unchecked: bool = False) -> ckks.Tensor:
        """Samples [count, features] as a tensor (features,). They are repeated to fill the slots: an empty slot would be a sample of
        zeros, which may be far from all others, and a value that outgrows its modulus in one slot spoils all of them.

        The clear samples are checked first: the model's layers are run on them, and a sample that takes an activation outside its
        calibrated interval, or a result beyond the room of the parameters, is a PlaintextRangeError. A client's half has no
        weights: it refuses samples with a feature outside `ranges`. With ``unchecked=True`` nothing is checked, and one such sample
        may make the results of all samples wrong.

        Raises ShapeError for none or more than there are slots, DtypeError, PlaintextRangeError, ParameterError for slots that are
        no power of two.

        >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
        >>> model.encrypt(secret, [[1, 3], [2, 4]]).shape  # a ciphertext for each feature
        (2,)
        """
        if not isinstance(key, (ckks.SecretKey, ckks.PublicKey)):
            raise _core.DtypeError(f"samples are encrypted by a secret or public key of CKKS, not by {described(key)}")
        checked = not flag(unchecked, "unchecked")
        x, slots = self._columns(samples), key.parameters.slots
        if slots != key.parameters.period:
            raise _core.ParameterError(f"a set of {slots:,} slots leaves places empty: model.parameters has a power of two")
        if not 1 <= x.shape[1] <= slots:
            raise _core.ShapeError(f"{x.shape[1]:,} samples for {slots:,} slots")
        if checked:
            self._require_inside(x, key.parameters)
        # Public: a constant of the model, by which a server's bounds hold. Unchecked values may be beyond.
        bound = self.ranges.bound if checked and self.ranges is not None else None
        return key.encrypt(np.ascontiguousarray(x[:, np.arange(slots) % x.shape[1]]), bound=bound)

    def inside(self, samples: Any) -> npt.NDArray[np.bool_]:
        """Which of the samples [count, features] are like the calibration data, so that `encrypt` takes them: bool [count].

        Raises DtypeError, ShapeError, PlaintextRangeError for infinities and what is no number.

        >>> model.inside([[1, 3], [2, 400]])
        array([ True, False])
        """
        found = np.ones(np.shape(samples)[:1], dtype=bool)
        with np.errstate(all="ignore"):
            for check in self._checks(self._columns(samples), math.inf):
                found &= check.inside()
        return found

    def _require_inside(self, x: Floats, parameters: ckks.Parameters) -> None:
        """Raises PlaintextRangeError for samples [features, count] whose results may be wrong."""
        with np.errstate(all="ignore"):  # what overflows is refused
            for check in self._checks(x, room_of(parameters, parameters.levels - self.depth)):
                check.require()

    def _checks(self, x: Floats, room: float) -> Iterator[Check]:
        """Conditions for right results of samples [features, count]."""
        if self._complete:
            yield from of_layers(self.layers, x, min(self._reach, room))
            if self.ranges is not None:
                yield of_bound(x, self.ranges.bound)
        elif self.ranges is not None:
            yield of_features(self.ranges, x)

    def _columns(self, samples: Any) -> Floats:
        return _matrix(samples, self.features, "the samples").T

    def __call__(self, x: ckks.Tensor) -> ckks.Tensor:
        """Predictions or decision values (outputs,) of encrypted features (features,), each ciphertext's slots the samples.

        Raises ShapeError, LevelError, MissingKeyError.
        """
        if not isinstance(x, ckks.Tensor):
            raise _core.DtypeError(f"a model takes a tensor of CKKS, not {type(x).__name__}")
        if x.shape != (self.features,):
            raise _core.ShapeError(
                f"{self.name} takes a tensor of shape ({self.features},), a ciphertext for each feature, not {x.shape}: "
                "model.encrypt(key, samples)"
            )
        for layer in self.layers:
            x = layer.encrypted(x)
        # Tracked bounds take every weight and every feature at its worst. Clients refuse samples with results beyond `reach`.
        return ckks.within(x, self._reach) if math.isfinite(self._reach) else x

    def clear(self, samples: Any) -> Floats:
        """What the encrypted run would give but for CKKS's error [outputs, count], of clear samples [count, features].

        >>> model.clear([[1, 3], [2, 4]])
        array([[5.5, 8.5]])
        """
        x = self._columns(samples)
        for layer in self.layers:
            x = layer.clear(x)
        return x

    def predict(self, values: Any) -> npt.NDArray[Any]:
        """The estimator's predictions of decrypted values [outputs, count], or of some of their columns.

        >>> model.predict([[5.5, 8.5]])
        array([5.5, 8.5])
        """
        found = self._values(values)
        if self.classes is None:
            return found[0] if self.outputs == 1 else found.T
        chosen = (found[0] > 0).astype(int) if self.outputs == 1 else found.argmax(0)
        return np.asarray(self.classes[chosen])

    def predict_proba(self, values: Any) -> Floats:
        """Probabilities of the classes [count, classes] of decrypted values. Raises DtypeError for estimators without.

        >>> judge = nn.Model("a judge", (layer,), np.array(["no", "yes"]), True, 8.0)
        >>> judge.predict([[-1.0, 2.0]]).tolist(), judge.predict_proba([[-1.0, 2.0]]).round(3).tolist()
        (['no', 'yes'], [[0.731, 0.269], [0.119, 0.881]])
        """
        if not self._probable:
            raise _core.DtypeError(f"{self.name} has no probabilities")
        found = self._values(values)
        if self.outputs == 1:
            positive = 1 / (1 + np.exp(-found[0]))
            return np.stack([1 - positive, positive], axis=1)
        raised = np.exp(found - found.max(0))
        return np.asarray((raised / raised.sum(0)).T)

    def seal(
        self,
        path: Any,
        *,
        parameters: ckks.Parameters | None = None,
        samples: int = 0,
        name: str | None = None,
        version: str = "1",
        title: str = "",
        labels: Any = None,
    ) -> Any:
        """The model in a file, as `hg.SealedModel` reads it, for a server and its clients. `parameters`: without, the smallest set with
        slots for so many `samples`. `labels`: of the classes, in the order of `classes`; without, their names.

        Raises ParameterError for a set that does not fit, DtypeError, OSError.

        >>> sealed = model.seal("line.hgm", samples=2)
        >>> secret = hg.SecretKey.generate(sealed.parameters)
        >>> answer = sealed.run(hg.Server(sealed.keys(secret)), sealed.encrypt(secret, [[1, 3], [2, 4]]))
        >>> sealed.predict(sealed.decrypt(secret, answer, like=[[1, 3], [2, 4]])).round(3)
        array([5.5, 8.5])
        """
        return seal(
            "estimator",
            self,
            path,
            parameters=parameters,
            samples=samples,
            name=name,
            version=version,
            title=title,
            labels=labels,
        )

    def _values(self, values: Any) -> Floats:
        found = complexes(values, "decrypted values")[0].real
        if found.ndim != 2 or len(found) != self.outputs:
            raise _core.ShapeError(f"{self.name} gives values [{self.outputs}, samples], not of shape {found.shape}")
        return found

    def _rows(self) -> Rows:
        sizes = " -> ".join(str(n) for n in (self.features, *(len(layer.weight) for layer in self.layers)))
        known = [] if self.ranges is None else [("features", self.ranges.summary())]
        return [("of", self.name), ("layers", sizes), ("levels", str(self.depth)), *known, *self.report._rows()]

    def __repr__(self) -> str:
        rows = dict(self._rows())
        same = f", {rows['same class']} in the same class" if "same class" in rows else ""
        return f"<model of {self.name}: {rows['layers']}, {self.depth} levels, error {self.report.largest_error:.2g}{same}>"


def from_sklearn(
    estimator: Any, calibration: Any, *, degree: int = 7, margin: float = 1.25, intervals: str = "calibrated"
) -> Model:
    """A fitted estimator of scikit-learn as a model for encrypted features, by CKKS.

    Linear models (LinearRegression, Ridge, Lasso, ElasticNet, SGDRegressor, LinearSVR, LogisticRegression, RidgeClassifier, LinearSVC,
    SGDClassifier and others) and multilayer perceptrons (MLPClassifier, MLPRegressor), alone or at the end of a Pipeline whose
    steps scale (StandardScaler, MinMaxScaler, MaxAbsScaler, PCA).

    `calibration` are samples [count, features] like those that will come, such as the training data. They tell how large values become,
    and the intervals on which activations are polynomials: of `degree`, fitted by least squares, `margin` times as wide as the
    values seen. Outside its interval a polynomial is far from its function, so `Model.encrypt` refuses samples that lead there.
    `ranges` holds the range of each feature, `margin` times as wide, too. `report` says how near the model is on the calibration
    data. Softmax and the logistic function at the end are left to the client (`predict_proba`).

    With ``intervals="proven"`` the intervals are as wide as any sample inside `ranges` needs (interval arithmetic, layer by layer):
    clients without the weights then refuse all samples that could be wrong. Wider intervals need a larger `degree`.

    Raises DtypeError for other estimators, ParameterError for one that is not fitted, ShapeError.

    >>> from sklearn.linear_model import LinearRegression
    >>> samples = np.random.default_rng(1).normal(size=(20, 3))
    >>> fitted = LinearRegression().fit(samples, samples @ [1, 2, 3])
    >>> model = nn.from_sklearn(fitted, samples)
    >>> secret = hg.SecretKey.generate(model.parameters(samples=len(samples)))
    >>> x = hg.Server(secret.evaluation_keys()).bind(model.encrypt(secret, samples))
    >>> found = model.predict(secret.decrypt(model(x)))[:20]
    >>> bool(np.abs(found - fitted.predict(samples)).max() < 1e-3)
    True
    """
    degree = count_of(degree, "degree", 1)
    margin = real(margin, "the margin")
    if not 1 <= margin < math.inf:
        raise _core.ParameterError(f"a margin is a factor of at least 1, not {described(margin)}")
    proven = text_of(intervals, "intervals", ("calibrated", "proven")) == "proven"
    steps, last = _steps(estimator)
    kind = _kind(last, _REGRESSORS | _CLASSIFIERS | _PERCEPTRONS)
    weights, biases = _linear(last) if kind not in _PERCEPTRONS else _perceptron(last)
    features = int(getattr(estimator, "n_features_in_", len(weights[0].T)))
    samples = _matrix(calibration, features, "the calibration data")
    if not len(samples):
        raise _core.ShapeError("the calibration data are no samples")
    for step in reversed(steps):
        weights[0], biases[0] = _after(step, weights[0], biases[0])
    name = str(getattr(last, "activation", "identity"))
    low, high = calibrated(samples, margin)
    layers, largest = _fitted(weights, biases, name, samples.T, degree, margin, (low, high) if proven else None)
    ranges = _ranges(layers, low, high, largest, proven)
    probable = kind in _PROBABLE and not (getattr(last, "solver", "") == "liblinear" and len(biases[-1]) > 1)
    classes = getattr(last, "classes_", None) if kind not in _REGRESSORS | {"MLPRegressor"} else None
    model = Model(kind, layers, None if classes is None else np.asarray(classes), probable, largest, ranges=ranges)
    model.report = _compared(model, weights, biases, name, samples)
    return model


def _kind(estimator: Any, known: frozenset[str]) -> str:
    """The class's name in scikit-learn. Raises DtypeError for what is none of those known."""
    for base in type(estimator).__mro__:
        if base.__module__.split(".")[0] == "sklearn" and base.__name__ in known:
            return base.__name__
    raise _core.DtypeError(f"{type(estimator).__name__} is none of the estimators known here: {', '.join(sorted(known))}")


def _steps(estimator: Any) -> tuple[list[Any], Any]:
    """A pipeline's transformations and its last step; without a pipeline none."""
    if not any(base.__name__ == "Pipeline" for base in type(estimator).__mro__):
        return [], estimator
    steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
    for step in steps[:-1]:
        _kind(step, _AFFINE)
        if getattr(step, "clip", False):
            raise _core.DtypeError(f"{type(step).__name__} with clip=True is no linear function of the features")
    return steps[:-1], steps[-1]


def _fitted_attribute(estimator: Any, name: str) -> Any:
    if getattr(estimator, name, None) is None:
        raise _core.ParameterError(f"this {type(estimator).__name__} is not fitted")
    return getattr(estimator, name)


def _linear(estimator: Any) -> tuple[list[Floats], list[Floats]]:
    weight = np.atleast_2d(np.asarray(_fitted_attribute(estimator, "coef_"), dtype=np.float64))
    bias = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    return [weight], [np.broadcast_to(bias, (len(weight),)).astype(np.float64)]


def _perceptron(estimator: Any) -> tuple[list[Floats], list[Floats]]:
    weights = [np.asarray(w, dtype=np.float64).T for w in _fitted_attribute(estimator, "coefs_")]
    if getattr(estimator, "out_activation_", "") == "logistic" and len(weights[-1]) > 1:
        raise _core.DtypeError("a perceptron of several labels at once is not known here")
    return weights, [np.asarray(b, dtype=np.float64) for b in estimator.intercepts_]


def _after(step: Any, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """The layer after a scaling as one of what comes before it."""
    count = _fitted_attribute(step, "n_features_in_")
    at_zero = np.asarray(step.transform(np.zeros((1, count))), dtype=np.float64)[0]
    linear = np.asarray(step.transform(np.eye(count)), dtype=np.float64) - at_zero
    return weight @ linear.T, bias + weight @ at_zero


def _ranges(layers: tuple[Dense, ...], low: Floats, high: Floats, largest: float, proven: bool) -> Ranges:
    """Of the features. Linear models get room for all samples inside, unless that takes more than `_MORE_ROOM` times as much."""
    reach = max(2 * largest, float(np.abs(low).max()), float(np.abs(high).max()), 1.0)
    if proven or all(layer.activation is None for layer in layers):
        at, to = low, high
        for layer in layers:
            at, to = image(layer.weight, layer.bias, at, to)
            if layer.activation is not None:
                at, to = polynomial_image(layer.activation.coefficients, np.maximum(at, -1), np.minimum(to, 1))
        needed = max(reach, -float(at.min()), float(to.max()))
        reach = needed if proven or needed <= _MORE_ROOM * reach else reach
    return Ranges(tuple(low.tolist()), tuple(high.tolist()), reach, proven_share(layers, low, high, reach))


def _fitted(
    weights: list[Floats],
    biases: list[Floats],
    name: str,
    x: Floats,
    degree: int,
    margin: float,
    box: tuple[Floats, Floats] | None,
) -> tuple[tuple[Dense, ...], float]:
    """Layers with polynomials, fitted one after the other on what the ones before give; the largest value on the way. With a `box` of
    the features, intervals cover all samples inside.
    """
    layers: list[Dense] = []
    largest = float(np.abs(x).max(initial=0))
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        z = weight @ x + bias[:, None]
        layer = Dense(weight, bias)
        if number + 1 < len(weights) and name != "identity":
            covered = None
            if box is not None:
                at, to = box = image(weight, bias, *box)
                covered = float(at.min()), float(to.max())
            activation = _polynomial(name, z.ravel(), degree, margin, covered)
            middle, half = (activation.high + activation.low) / 2, (activation.high - activation.low) / 2
            layer = Dense(weight / half, (bias - middle) / half, activation)
            if box is not None:
                box = polynomial_image(activation.coefficients, *(np.clip((end - middle) / half, -1, 1) for end in box))
        x = layer.clear(x)
        largest = max(largest, float(np.abs(x).max(initial=0)))
        layers.append(layer)
    return tuple(layers), largest


def _polynomial(name: str, z: Floats, degree: int, margin: float, covered: tuple[float, float] | None) -> Activation:
    """The least-squares fit on the data, with some weight everywhere in the interval, which contains `covered`."""
    function = _ACTIVATIONS.get(name)
    if function is None:
        raise _core.DtypeError(f'the activation "{name}" is none of identity, {", ".join(_ACTIVATIONS)}')
    middle, half = (z.max() + z.min()) / 2, max(float(np.ptp(z)) / 2, 1e-6) * margin
    if covered is not None:
        low, high = min(covered[0], middle - half), max(covered[1], middle + half)
        middle, half = (high + low) / 2, (high - low) / 2
    data = z if len(z) <= _SAMPLES else np.random.default_rng(0).choice(z, _SAMPLES, replace=False)
    places = np.concatenate([(data - middle) / half, np.linspace(-1, 1, _GRID)])
    shares = np.concatenate([np.full(len(data), 1 / len(data)), np.full(_GRID, _GRID_WEIGHT / _GRID)])
    values = function(places * half + middle)
    coefficients = np.polynomial.chebyshev.chebfit(places, values, degree, w=np.sqrt(shares))
    errors = np.polynomial.chebyshev.chebval((z - middle) / half, coefficients) - function(z)
    return Activation(
        name=name,
        low=float(middle - half),
        high=float(middle + half),
        coefficients=tuple(float(c) for c in coefficients),
        largest_error=float(np.abs(errors).max()),
        mean_error=float(np.sqrt(np.mean(errors**2))),
    )


def _compared(model: Model, weights: list[Floats], biases: list[Floats], name: str, samples: Floats) -> Report:
    """With the estimator's own functions in place of the polynomials."""
    x = samples.T
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = weight @ x + bias[:, None]
        if number + 1 < len(weights) and name != "identity":
            x = _ACTIVATIONS[name](x)
    found = model.clear(samples)
    same = None if model.classes is None else float(np.mean(model.predict(found) == model.predict(x)))
    activations = tuple(layer.activation for layer in model.layers if layer.activation is not None)
    errors = np.abs(found - x)
    return Report(len(samples), float(errors.max()), float(np.sqrt(np.mean(errors**2))), same, activations)


def _matrix(samples: Any, features: int, what: str) -> Floats:
    """Real numbers [count, features]."""
    array, is_complex = complexes(samples, what)
    if is_complex:
        raise _core.DtypeError(f"{what} are real numbers")
    if array.ndim != 2 or array.shape[1] != features:
        raise _core.ShapeError(f"{what} are [count, {features} features], not of shape {array.shape}")
    return np.ascontiguousarray(array.real)
