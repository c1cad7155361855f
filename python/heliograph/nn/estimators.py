"""Models that scikit-learn has fitted, on encrypted features: linear ones and multilayer perceptrons, by CKKS.

A feature lies in a ciphertext, a sample in each slot: a layer is one matrix product along the ciphertexts, without rotations, and
takes as long for one sample as for all the slots hold. `heliograph.nn.fitted` reads the estimators.
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
from heliograph.nn.affine import folded
from heliograph.nn.fitted import Fitted, predictions, read, require_same, settled
from heliograph.nn.inputs import Inputs, encoding, some
from heliograph.nn.outputs import Output
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

_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "logistic": lambda z: np.exp(-np.logaddexp(0, -z)),
}
_MOST_BITS = 40  # before the point, of a set found by need
_MORE_ROOM = 64  # 6 bits, which most parameter sets have free
_MOST_PRECISION = 32  # that sets of few levels have
_LEAST_BITS = 6  # of a model's largest value, above the errors of CKKS
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
    """How near a model is to the estimator itself on the calibration data, before any encryption.

    The estimator's own `predict` gives the classes and a regressor's predictions. `decision_function` gives the values of a classifier;
    without one, as of MLPClassifier, `predict_proba` does.

    >>> print(nn.Report(150, 0.25, 0.125, 0.98))
       calibration  150 samples
             error  0.25 at most, 0.12 in the root mean square
        same class  98.00%
    """

    samples: int
    largest_error: (
        float  #: of a prediction; of a classifier, of a decision value, or of a probability if it has no decision values
    )
    mean_error: float  #: root of the mean square
    agreement: float | None  #: share of samples of the same class, or of the same labels; None for regressors
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

    Raises ParameterError for classes, `inputs` or an `output` that do not fit the layers.

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
        inputs: Inputs | None = None,
        output: Output | None = None,
    ) -> None:
        self.name = name
        self.layers = layers
        #: The classes in the order of decision values, of the type that the estimator was fitted with; None of a regressor.
        self.classes = classes
        #: How samples become encrypted features: names of columns, centres and units.
        self.inputs = Inputs() if inputs is None else inputs
        if output is None:
            chances = ("softmax" if len(layers[-1].bias) > 1 else "logistic") if probable else ""
            output = Output("values" if classes is None else "class", probability=chances)
        output.require_fits(len(layers[-1].bias), classes)
        self.inputs.require_fits(layers[0].weight.shape[1])
        #: How decrypted values become predictions.
        self.output = output
        #: Of the features; None if the model was made without calibration data.
        self.ranges = ranges
        self._reach = 2 * largest if ranges is None else ranges.reach  # of inputs and results
        self._largest = 0.0  # value on the calibration data; 0 if nothing depends on it
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

    @property
    def needs(self) -> dict[str, Any]:
        """The arguments of `SecretKey.evaluation_keys` that make its keys."""
        return {"relinearize": any(layer.activation is not None for layer in self.layers)}

    def parameters(self, *, precision: int = 25, samples: int = 0) -> ckks.Parameters:
        """The smallest set of CKKS for it: with `precision` bits after the point in each product, and slots for so many samples.

        Inputs and results may be twice as large as the calibration data made them; `encrypt` refuses samples with larger ones.
        Evaluation keys need no rotations. Raises ParameterError, also for a precision by which the model's values would drown in errors.

        >>> found = model.parameters(samples=2)
        >>> found.security, found.slots
        ('128-bit', 2)
        """
        bits = max(1, math.ceil(math.log2(max(self._reach / 2, 1.0)))) + 1
        least = _LEAST_BITS - math.floor(math.log2(self._largest)) if 0 < self._largest < 1 else 0
        if count_of(precision, "precision") < least:
            way = f"take precision={least}, or " if least <= _MOST_PRECISION else ""
            raise _core.ParameterError(
                f"cannot choose parameters for {self.name}: precision must be at least {least}, not {precision}, because its values are at most "
                f"{self._largest:.2g} on the calibration data, and errors of CKKS are of fixed size; {way}fit it on scaled features and targets"
            )
        if bits > _MOST_BITS:
            raise _core.ParameterError(
                f"no parameters have room for {self.name}: its values must be at most 2^{_MOST_BITS - 1}, and the calibration data make some of "
                f"{self._reach / 2:.3g}; fit it on scaled features and targets, by a StandardScaler before it"
            )
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

        Columns of a data frame are taken by their names if the estimator was fitted with names. `inputs` says which features are
        centred or scaled before encryption; so tensors for the model are made here, not by ``key.encrypt``.

        Raises ShapeError for none or more than there are slots and for other columns, DtypeError, PlaintextRangeError, ParameterError
        for slots that are no power of two.

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
        bound = self._bound(self.ranges) if checked and self.ranges is not None else None
        x = self.inputs.encoded(x)
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
            encoded = self.inputs.encoded(x)
            yield from of_layers(self.layers, encoded, min(self._reach, room))
            if self.ranges is not None:
                yield of_bound(encoded, self._bound(self.ranges), self.inputs)
        elif self.ranges is not None:
            yield of_features(self.ranges, x)

    def _bound(self, ranges: Ranges) -> float:
        """Largest magnitude of an encrypted feature: twice the largest in the ranges. It is public."""
        return ranges.bound_of(self.inputs)

    def _columns(self, samples: Any) -> Floats:
        return self.inputs.matrix(samples, self.features, "the samples").T

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
        return _layered(self.layers, self.inputs.encoded(self._columns(samples)))

    def predict(self, values: Any) -> npt.NDArray[Any]:
        """The estimator's predictions of decrypted values [outputs, count], or of some of their columns, in the shape and with the
        classes that the estimator itself has.

        >>> model.predict([[5.5, 8.5]])
        array([5.5, 8.5])
        """
        return self.output.predict(self._values(values).T, self.classes)

    def predict_proba(self, values: Any) -> Floats:
        """Probabilities of the classes [count, classes], or of the labels, of decrypted values. Raises DtypeError for estimators without.

        >>> judge = nn.Model("a judge", (layer,), np.array(["no", "yes"]), True, 8.0)
        >>> judge.predict([[-1.0, 2.0]]).tolist(), judge.predict_proba([[-1.0, 2.0]]).round(3).tolist()
        (['no', 'yes'], [[0.731, 0.269], [0.119, 0.881]])
        """
        return self.output.probabilities(self._values(values).T, self.name)

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
        slots for so many `samples`. `labels`: texts that are predicted in place of the classes, in the order of `classes`; without, the file
        has the classes with their type. It has the columns' names, too.

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
        known = [("columns", some(self.inputs.names))] if self.inputs.names else []
        known += [] if self.ranges is None else [("features", self.ranges.summary())]
        return [("of", self.name), ("layers", sizes), ("levels", str(self.depth)), *known, *self.report._rows()]

    def __repr__(self) -> str:
        rows = dict(self._rows())
        same = f", {rows['same class']} in the same class" if "same class" in rows else ""
        return f"<model of {self.name}: {rows['layers']}, {self.depth} levels, error {self.report.largest_error:.2g}{same}>"


def from_sklearn(
    estimator: Any, calibration: Any, *, degree: int = 7, margin: float = 1.25, intervals: str = "calibrated"
) -> Model:
    """A fitted estimator of scikit-learn as a model for encrypted features, by CKKS.

    - Linear models: LinearRegression, Ridge, Lasso, ElasticNet, SGDRegressor, LinearSVR, PoissonRegressor and others; LogisticRegression,
      RidgeClassifier, LinearSVC, SGDClassifier, Perceptron, LinearDiscriminantAnalysis.
    - Multilayer perceptrons: MLPClassifier, MLPRegressor.
    - These at the end of a Pipeline whose steps are linear: StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD,
      selections (SelectKBest and others), and a ColumnTransformer of such steps.
    - These in a search (GridSearchCV), as its `best_estimator_`.

    All other estimators, steps and options are a DtypeError, and so is a subclass that overrides how predictions are made. The model
    has the estimator's rules: its classes with their type, probabilities, several labels, the exponential of a Poisson regressor. They
    are compared with the estimator's own `predict`, `decision_function` and `predict_proba` on the calibration data, and a difference
    beyond rounding is a DtypeError.

    `calibration` are samples [count, features] like those that will come, such as the training data. They tell how large values become,
    and the intervals on which activations are polynomials: of `degree`, fitted by least squares, `margin` times as wide as the
    values seen. Outside its interval a polynomial is far from its function, so `Model.encrypt` refuses samples that lead there.
    `ranges` holds the range of each feature, `margin` times as wide, too. `report` says how near the model is on the calibration
    data. Softmax, the logistic function and the exponential at the end are left to the client (`predict`, `predict_proba`).

    Columns of data frames are taken by their names if the estimator was fitted with names.

    With ``intervals="proven"`` the intervals are as wide as any sample inside `ranges` needs (interval arithmetic, layer by layer):
    clients without the weights then refuse all samples that could be wrong. Wider intervals need a larger `degree`.

    Raises DtypeError for other estimators, ParameterError for one that is not fitted or whose decision values are all 0, ShapeError,
    PlaintextRangeError for samples or weights that are no numbers.

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
    fitted = read(estimator)
    samples = Inputs(fitted.names).matrix(calibration, fitted.features, "the calibration data")
    if not len(samples):
        raise _core.ShapeError("the calibration data are no samples")
    if not all(np.isfinite(part).all() for part in (*fitted.weights, *fitted.biases)):
        raise _core.PlaintextRangeError(
            f"cannot mirror this {fitted.name}: its weights hold infinities or what is no number"
        )
    own = predictions(estimator, fitted, calibration)
    fitted = settled(fitted, own[0], own[2] is not None, calibration)
    low, high = calibrated(samples, margin)
    inputs = encoding(fitted.names, low, high)
    weights, biases = _of_encoded(fitted, inputs)
    x, box = inputs.encoded(samples.T), (inputs.encoded(low[:, None])[:, 0], inputs.encoded(high[:, None])[:, 0])
    exact = _exact(fitted, weights, biases, x)
    require_same(fitted, exact.T, fitted.tolerance(samples.T), own)
    if fitted.classes is not None and not exact.any():
        raise _core.ParameterError(
            f"cannot mirror this {fitted.name}: its decision values must not all be 0, because the errors of CKKS would choose the classes; fit "
            "it anew"
        )
    layers, largest = _fitted(weights, biases, fitted.activation, x, degree, margin, box if proven else None)
    ranges = _ranges(layers, low, high, box, largest, proven)
    model = Model(fitted.name, layers, fitted.classes, False, largest, ranges=ranges, inputs=inputs, output=fitted.output)
    if fitted.output.link == "identity":
        model._largest = float(np.abs(exact).max())
    model.report = _compared(model, own, _layered(layers, x))
    return model


def _of_encoded(fitted: Fitted, inputs: Inputs) -> tuple[list[Floats], list[Floats]]:
    """Weights and biases of the encrypted features: with the steps before, centres and units in the first layer."""
    centre = np.array(inputs.centre or (0.0,) * fitted.features)
    unit = np.array(inputs.unit or (1.0,) * fitted.features)
    weight, bias = folded(fitted.steps, fitted.weights[0], fitted.biases[0], centre, unit)
    return [weight, *fitted.weights[1:]], [bias, *fitted.biases[1:]]


def _ranges(
    layers: tuple[Dense, ...], low: Floats, high: Floats, box: tuple[Floats, Floats], largest: float, proven: bool
) -> Ranges:
    """Of the features; `box` of the encrypted ones. Linear models get room for all samples inside, unless that takes more than
    `_MORE_ROOM` times as much.
    """
    reach = max(2 * largest, float(np.abs(box).max()), 1.0)
    if proven or all(layer.activation is None for layer in layers):
        at, to = box
        for layer in layers:
            at, to = image(layer.weight, layer.bias, at, to)
            if layer.activation is not None:
                at, to = polynomial_image(layer.activation.coefficients, np.maximum(at, -1), np.minimum(to, 1))
        needed = max(reach, -float(at.min()), float(to.max()))
        reach = needed if proven or needed <= _MORE_ROOM * reach else reach
    return Ranges(tuple(low.tolist()), tuple(high.tolist()), reach, proven_share(layers, *box, reach))


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
    function = _activation(name)
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


def _exact(fitted: Fitted, weights: list[Floats], biases: list[Floats], x: Floats) -> Floats:
    """The values [outputs, count] with the estimator's own activations, of encoded features [features, count]."""
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = weight @ x + bias[:, None]
        if number + 1 < len(weights) and fitted.activation != "identity":
            x = _activation(fitted.activation)(x)
    return x


def _activation(name: str) -> Callable[[Floats], Floats]:
    if name not in _ACTIVATIONS:
        raise _core.DtypeError(f'the activation "{name}" is none of identity, {", ".join(_ACTIVATIONS)}')
    return _ACTIVATIONS[name]


def _layered(layers: tuple[Dense, ...], x: Floats) -> Floats:
    """The values [outputs, count] of encoded features [features, count], by the layers' polynomials."""
    for layer in layers:
        x = layer.clear(x)
    return x


def _compared(model: Model, own: tuple[npt.NDArray[Any], Floats | None, Floats | None], values: Floats) -> Report:
    """Compares values [outputs, count] with the estimator's own predictions, decision values and probabilities."""
    predicted, decided, chances = own
    made = model.predict(values)
    with np.errstate(all="ignore"):
        if model.output.kind == "values":
            errors = np.where(made == predicted, 0.0, np.abs(made - predicted))  # an exponential may be infinite
        elif decided is not None:
            errors = np.abs((values[0] if decided.ndim == 1 else values.T) - decided)
        elif chances is not None and model.output.probability:
            errors = np.abs(model.predict_proba(values) - chances)
        else:
            errors = np.asarray(made != predicted).astype(np.float64)
    same = None
    if model.output.kind != "values":
        same = float(np.mean(np.asarray(made == predicted).reshape(len(made), -1).all(1)))
    activations = tuple(layer.activation for layer in model.layers if layer.activation is not None)
    return Report(len(made), float(errors.max()), float(np.sqrt(np.mean(errors**2))), same, activations)
