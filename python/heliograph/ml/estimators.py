"""Fitted scikit-learn models on features encrypted by CKKS: linear models and multilayer perceptrons.

Each ciphertext holds one feature, with a sample in each slot. A layer is one matrix product along the ciphertexts, without
rotations, and takes as long for one sample as for full slots. `heliograph.ml.fitted` reads the estimators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import count_of, described, flag, real, text_of
from heliograph._common.exporters import export
from heliograph._common.html import HtmlRepr, Rows
from heliograph.ml.affine import folded
from heliograph.ml.fitted import Fitted, predictions, read, require_same, resolve_output
from heliograph.ml.inputs import Inputs, encoding, some
from heliograph.ml.layers import Activation, Dense, Floats
from heliograph.ml.model import Model, served
from heliograph.ml.noise import Noise
from heliograph.ml.outputs import Output
from heliograph.ml.ranges import (
    Check,
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
_MOST_BITS = 40  # maximum bits before the point of a set by need
_MORE_ROOM = 64  # 6 bits; most parameter sets have that much unused room
_MOST_PRECISION = 32  # maximum precision of sets with few levels
_LEAST_BITS = 6  # minimum bits of a model's largest value above the errors of CKKS
_GRID, _GRID_WEIGHT, _SAMPLES = 512, 0.02, 50_000  # least-squares fit: grid points, their weight, maximum samples


@dataclass(frozen=True)
class _Fit:
    """The polynomials of activations: of a degree, or within an error if that is not None."""

    name: str
    degree: int
    error: float | None
    margin: float


@dataclass(frozen=True)
class Report(HtmlRepr):
    """Differences between a model and its estimator on the calibration data, in the clear.

    Classes and a regressor's predictions are compared with the estimator's `predict`, a classifier's values with its
    `decision_function`, or with `predict_proba` if it has none, as MLPClassifier.

    >>> print(ml.Report(150, 0.25, 0.125, 0.98))
       calibration  150 samples
             error  0.25 at most, 0.12 in the root mean square
        same class  98.00%
    """

    samples: int
    largest_error: float  #: of predictions (regressor), or of decision values or, without these, probabilities (classifier)
    mean_error: float  #: root mean square error
    agreement: float | None  #: share of samples with the same class or labels; None for regressors
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


class EstimatorModel(Model):
    """A fitted estimator for encrypted features, called with a tensor of shape (features,). `hg.ml.compile` makes models.

    Raises ParameterError if classes, `inputs` or `output` do not fit the layers.

    >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
    >>> x = model.encrypt(secret, [[1, 3], [2, 4]])  # two samples of two features
    >>> model.predictions(model.decrypt(secret, model(x))).round(3)
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
        #: Classes in the order of decision values, with the type that the estimator was fitted with; None for a regressor.
        self.classes = classes
        #: Encoding of samples as encrypted features: column names, centres and units.
        self.inputs = Inputs() if inputs is None else inputs
        if output is None:
            probability = ("softmax" if len(layers[-1].bias) > 1 else "logistic") if probable else ""
            output = Output("values" if classes is None else "class", probability=probability)
        output.require_fits(len(layers[-1].bias), classes)
        self.inputs.require_fits(layers[0].weight.shape[1])
        #: Mapping from decrypted values to predictions.
        self.output = output
        #: Ranges of the features; None if the model was made without calibration data.
        self.ranges = ranges
        self._reach = 2 * largest if ranges is None else ranges.reach  # largest magnitude of inputs and results
        self._largest = 0.0  # largest magnitude of a result on the calibration data; 0 if irrelevant
        self._complete = complete  # false for a client's half, whose weights are zeros
        self.report = Report(0, 0.0, 0.0, None)
        self.batch = 0  #: default of `samples` in `parameters`

    @property
    def features(self) -> int:
        """Number of features: the ciphertexts of an input."""
        return int(self.layers[0].weight.shape[1])

    @property
    def outputs(self) -> int:
        """Number of ciphertexts of a result: predictions, or decision values (one for two classes)."""
        return int(self.layers[-1].weight.shape[0])

    @property
    def depth(self) -> int:
        """Number of levels that the model takes."""
        return sum(1 + (0 if layer.activation is None else layer.activation.depth) for layer in self.layers)

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": any(layer.activation is not None for layer in self.layers)}

    def parameters(self, *, precision: int = 25, samples: int | None = None) -> ckks.Parameters:
        """Returns the smallest CKKS set for the model, with slots for `samples` samples; by default `batch`, or the most.

        `precision` is the number of bits after the point in each product. Inputs and results may be twice as large as those
        of the calibration data; `encrypt` refuses samples with larger inputs or results. Evaluation keys need no rotations.

        Raises ParameterError, also if `precision` is too low for the magnitude of the model's values.

        >>> found = model.parameters(samples=2)
        >>> found.security, found.slots
        ('128-bit', 2)
        """
        bits = max(1, math.ceil(math.log2(max(self._reach / 2, 1.0)))) + 1
        least = _LEAST_BITS - math.floor(math.log2(self._largest)) if 0 < self._largest < 1 else 0
        if count_of(precision, "precision") < least:
            way = f"pass precision={least}, or " if least <= _MOST_PRECISION else ""
            raise _core.ParameterError(
                f"cannot choose parameters for {self.name}: precision must be at least {least}, not {precision}, because "
                f"its values are at most {self._largest:.2g} on the calibration data, and errors of CKKS have a fixed size; "
                f"{way}fit it on scaled features and targets"
            )
        if bits > _MOST_BITS:
            raise _core.ParameterError(
                f"cannot choose parameters for {self.name}: its values must be at most 2^{_MOST_BITS - 1}, and reach "
                f"{self._reach / 2:.3g} on the calibration data; fit it on scaled features and targets, by a StandardScaler "
                "before it"
            )
        count = count_of(self.batch if samples is None else samples, "samples")
        slots = 1 << (count - 1).bit_length() if count else 0  # a power of two repeats and leaves no place unused
        return ckks.parameters(depth=self.depth, precision=precision, integer_bits=bits, slots=slots)

    def encrypt(self, key: ckks.SecretKey | ckks.PublicKey, samples: Any, *, unchecked: bool = False) -> ckks.Tensor:
        """Encrypts samples [count, features] as a tensor (features,), by a secret or public key of CKKS.

        Samples are repeated to fill the slots. An unused slot would be a sample of zeros, which may be far from all others,
        and a value that exceeds its modulus in one slot corrupts all slots.

        The samples are checked first, by running the layers in the clear. A sample that drives an activation outside its
        calibrated interval, or a result beyond the room of the parameters, raises PlaintextRangeError. A client's half has
        no weights and refuses samples with a feature outside `ranges`. ``unchecked=True`` skips the checks; one such sample
        may then make the results of all samples wrong.

        If the estimator was fitted with column names, the columns of a data frame are matched by name. `inputs` defines
        which features are centred or scaled before encryption, so use this method for the model's tensors, and not
        ``key.encrypt``.

        Raises DtypeError; ShapeError for no samples, for more than there are slots and for other columns;
        PlaintextRangeError; ParameterError unless the number of slots is a power of two.

        >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
        >>> model.encrypt(secret, [[1, 3], [2, 4]]).shape  # a ciphertext for each feature
        (2,)
        """
        if not isinstance(key, (ckks.SecretKey, ckks.PublicKey)):
            raise _core.DtypeError(f"samples are encrypted by a secret or public key of CKKS, not by {described(key)}")
        checked = not flag(unchecked, "unchecked")
        x, slots = self._columns(samples), key.parameters.slots
        if slots != key.parameters.period:
            raise _core.ParameterError(
                f"the number of slots must be a power of two, so that no place is unused, not {slots:,}; use "
                "model.parameters"
            )
        if not 1 <= x.shape[1] <= slots:
            raise _core.ShapeError(f"encrypt takes 1 to {slots:,} samples, the number of slots, not {x.shape[1]:,}")
        if checked:
            self._require_inside(x, key.parameters)
        # The bound is public: a constant of the model, from which a server derives its bounds. Unchecked values may exceed
        # the bound.
        bound = self._bound(self.ranges) if checked and self.ranges is not None else None
        x = self.inputs.encoded(x)
        return key.encrypt(np.ascontiguousarray(x[:, np.arange(slots) % x.shape[1]]), bound=bound)

    def inside(self, samples: Any) -> npt.NDArray[np.bool_]:
        """Tells for each of samples [count, features] whether `encrypt` accepts it: bool [count].

        Raises DtypeError, ShapeError, PlaintextRangeError for infinities and NaN.

        >>> model.inside([[1, 3], [2, 400]])
        array([ True, False])
        """
        is_inside = np.ones(np.shape(samples)[:1], dtype=bool)
        with np.errstate(all="ignore"):
            for check in self._checks(self._columns(samples), math.inf):
                is_inside &= check.inside()
        return is_inside

    def _require_inside(self, x: Floats, parameters: ckks.Parameters) -> None:
        """Raises PlaintextRangeError for samples [features, count] whose results may be wrong."""
        with np.errstate(all="ignore"):  # the checks refuse values that overflow
            for check in self._checks(x, room_of(parameters, parameters.levels - self.depth)):
                check.require()

    def _checks(self, x: Floats, room: float) -> Iterator[Check]:
        """Yields the conditions for correct results of samples [features, count]."""
        if self._complete:
            encoded = self.inputs.encoded(x)
            yield from of_layers(self.layers, encoded, min(self._reach, room))
            if self.ranges is not None:
                yield of_bound(encoded, self._bound(self.ranges), self.inputs)
        elif self.ranges is not None:
            yield of_features(self.ranges, x)

    def _bound(self, ranges: Ranges) -> float:
        """Returns the public bound on the magnitude of encrypted features: twice the largest in the ranges."""
        return ranges.bound_of(self.inputs)

    def _columns(self, samples: Any) -> Floats:
        return self.inputs.matrix(samples, self.features, "the samples").T

    def __call__(self, x: ckks.Tensor) -> ckks.Tensor:
        """Returns predictions or decision values (outputs,) of encrypted features (features,), with a sample in each slot.

        Raises ShapeError, LevelError, MissingKeyError.
        """
        if not isinstance(x, ckks.Tensor):
            raise _core.DtypeError(f"a model takes a tensor of CKKS, not {type(x).__name__}")
        if x.shape != (self.features,):
            raise _core.ShapeError(
                f"{self.name} takes a tensor of shape ({self.features},), a ciphertext for each feature, not {x.shape}; "
                "make it by model.encrypt(key, samples)"
            )
        for layer in self.layers:
            x = layer.encrypted(x)
        # Tracked bounds are worst cases. Clients refuse samples whose results exceed `reach`.
        return ckks.within(x, self._reach) if math.isfinite(self._reach) else x

    def decrypt(self, secret: Any, answer: Any, like: Any = None, *, unchecked: bool = False) -> Floats:
        """Returns the values [count, outputs] of an answer. `like` is the samples that were encrypted: then `count` is their
        number; otherwise the number of slots.

        Raises OutOfIntervalError if a sample left an activation's interval, unless `unchecked`; ShapeError, WrongKeyError.

        >>> secret = hg.SecretKey.generate(model.parameters(samples=2))
        >>> answer = model(model.encrypt(secret, [[1, 3]]))
        >>> model.decrypt(secret, answer, like=[[1, 3]]).round(3)
        array([[5.5]])
        """
        if not isinstance(secret, ckks.SecretKey):
            raise _core.DtypeError(f"answers are decrypted by a secret key of CKKS, not by {described(secret)}")
        if not isinstance(answer, ckks.Tensor) or answer.shape != (self.outputs,):
            shape = getattr(answer, "shape", None)
            raise _core.ShapeError(
                f"an answer of {self.name} must be a tensor of CKKS of shape ({self.outputs},), not {described(answer)} of "
                f"shape {shape}"
            )
        values = secret.decrypt(answer, unchecked=flag(unchecked, "unchecked")).real.T
        return np.ascontiguousarray(values if like is None else values[: len(self._columns(like).T)])

    def clear(self, samples: Any) -> Floats:
        """Returns the values [count, outputs] of clear samples [count, features]: those of the encrypted run without CKKS's
        error.

        >>> model.clear([[1, 3], [2, 4]])
        array([[5.5],
               [8.5]])
        """
        return _layered(self.layers, self.inputs.encoded(self._columns(samples))).T

    def simulate(self, samples: Any, *, seed: int = 0) -> Floats:
        """Returns the values [count, outputs] of clear samples with random errors of the size of CKKS's, for the set of
        ``parameters(samples=count)``.

        Raises the errors of `encrypt` for samples that it refuses.

        >>> model.simulate([[1, 3], [2, 4]]).round(3)
        array([[5.5],
               [8.5]])
        """
        x = self._columns(samples)
        parameters = self.parameters(samples=x.shape[1])
        self._require_inside(x, parameters)
        noise, level = Noise(parameters, seed), parameters.levels
        z = noise.fresh(self.inputs.encoded(x), level)
        for layer in self.layers:
            z = noise.rescaled(layer.weight @ z + layer.bias[:, None], level)
            level -= 1
            if (a := layer.activation) is not None:
                z = np.asarray(np.polynomial.chebyshev.chebval(z, a.coefficients), dtype=np.float64)
                for _ in range(a.depth):
                    z = noise.rescaled(z, level, max(1.0, float(np.abs(a.coefficients).sum())))
                    level -= 1
        return np.ascontiguousarray(z.T)

    def _example(self, count: int) -> ckks.Tensor:
        """Returns an encrypted request of zeros, with new keys."""
        secret = ckks.SecretKey.generate(self.parameters(samples=count))
        x = secret.encrypt(np.zeros((self.features, secret.parameters.slots)))
        example: ckks.Tensor = served(self.keys(secret), x)
        return example

    def _execute(self, samples: Any) -> Floats:
        count = self._columns(samples).shape[1]
        secret = ckks.SecretKey.generate(self.parameters(samples=count))
        answer = self(served(self.keys(secret), self.encrypt(secret, samples)))
        return self.decrypt(secret, answer, samples)

    def export(
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
        """Writes the model as a model bundle (`hg.ModelBundle`), for a server and its clients. Returns that model.

        `parameters` is its set; by default the smallest with slots for `samples` samples. `labels` are strings that are
        predicted in place of the classes, in the order of `classes`; by default the file holds the classes with their type.
        The file also holds the column names. `name` is its name in a service, by default the file's.

        Raises ParameterError for a set that does not fit, DtypeError, OSError.

        >>> bundle = model.export("line.hgm", samples=2)
        >>> secret = hg.SecretKey.generate(bundle.parameters)
        >>> answer = bundle.run(hg.Server(bundle.keys(secret)), bundle.encrypt(secret, [[1, 3], [2, 4]]))
        >>> bundle.predict(bundle.decrypt(secret, answer, like=[[1, 3], [2, 4]])).round(3)
        array([5.5, 8.5])
        """
        return export(
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

    def _rows(self) -> Rows:
        sizes = " -> ".join(str(n) for n in (self.features, *(len(layer.weight) for layer in self.layers)))
        details = [("columns", some(self.inputs.names))] if self.inputs.names else []
        details += [] if self.ranges is None else [("features", self.ranges.summary())]
        return [("of", self.name), ("layers", sizes), ("levels", str(self.depth)), *details, *self.report._rows()]

    def __repr__(self) -> str:
        rows = dict(self._rows())
        same = f", {rows['same class']} in the same class" if "same class" in rows else ""
        return f"<model of {self.name}: {rows['layers']}, {self.depth} levels, error {self.report.largest_error:.2g}{same}>"


def compile_estimator(
    estimator: Any,
    calibration: Any,
    *,
    degree: int | None = None,
    error: float | None = None,
    margin: float = 1.25,
    intervals: str = "calibrated",
) -> EstimatorModel:
    """Makes a model for encrypted features, by CKKS, of a fitted linear model or perceptron of scikit-learn.

    `heliograph.ml.compiling.compile` documents arguments and errors."""
    if degree is not None and error is not None:
        raise _core.ParameterError("compile takes degree= or error=, not both")
    degree = count_of(7 if degree is None else degree, "degree", 1)
    if error is not None and not 0 < real(error, "the error") < math.inf:
        raise _core.ParameterError(f"the error of an activation must be a number above 0, not {described(error)}")
    margin = real(margin, "the margin")
    if not 1 <= margin < math.inf:
        raise _core.ParameterError(f"a margin must be a finite factor of at least 1, not {described(margin)}")
    proven = text_of(intervals, "intervals", ("calibrated", "proven")) == "proven"
    fitted = read(estimator)
    samples = Inputs(fitted.names).matrix(calibration, fitted.features, "the calibration data")
    if not len(samples):
        raise _core.ShapeError("the calibration data must have at least one sample, not 0")
    if not all(np.isfinite(part).all() for part in (*fitted.weights, *fitted.biases)):
        raise _core.PlaintextRangeError(
            f"cannot mirror this {fitted.name}: its weights must be finite, but hold infinities or NaN; fit it again"
        )
    own = predictions(estimator, fitted, calibration)
    fitted = resolve_output(fitted, own[0], own[2] is not None, calibration)
    low, high = calibrated(samples, margin)
    inputs = encoding(fitted.names, low, high)
    weights, biases = _of_encoded(fitted, inputs)
    x, box = inputs.encoded(samples.T), (inputs.encoded(low[:, None])[:, 0], inputs.encoded(high[:, None])[:, 0])
    exact = _exact(fitted, weights, biases, x)
    require_same(fitted, exact.T, fitted.tolerance(samples.T), own)
    if fitted.classes is not None and not exact.any():
        raise _core.ParameterError(
            f"cannot mirror this {fitted.name}: its decision values must not all be 0, because the errors of CKKS would "
            "choose the classes; fit it again"
        )
    fit = _Fit(fitted.activation, degree, error, margin)
    layers, largest = _fitted(weights, biases, fit, x, box if proven else None)
    ranges = _ranges(layers, low, high, box, largest, proven)
    model = EstimatorModel(
        fitted.name, layers, fitted.classes, False, largest, ranges=ranges, inputs=inputs, output=fitted.output
    )
    if fitted.output.link == "identity":
        model._largest = float(np.abs(exact).max())
    model.report = _compared(model, own, _layered(layers, x))
    return model


def _of_encoded(fitted: Fitted, inputs: Inputs) -> tuple[list[Floats], list[Floats]]:
    """Returns weights and biases for encrypted features.

    The first layer includes the pipeline's steps, centres and units.
    """
    centre = np.array(inputs.centre or (0.0,) * fitted.features)
    unit = np.array(inputs.unit or (1.0,) * fitted.features)
    weight, bias = folded(fitted.steps, fitted.weights[0], fitted.biases[0], centre, unit)
    return [weight, *fitted.weights[1:]], [bias, *fitted.biases[1:]]


def _ranges(
    layers: tuple[Dense, ...], low: Floats, high: Floats, box: tuple[Floats, Floats], largest: float, proven: bool
) -> Ranges:
    """Returns the ranges of features. `box` is the range of encrypted features.

    A linear model gets room for all samples inside the ranges, if that takes at most `_MORE_ROOM` times the room.
    """
    reach = max(2 * largest, float(np.abs(box).max()), 1.0)
    if proven or all(layer.activation is None for layer in layers):
        at, to = box
        for layer in layers:
            at, to = image(layer.weight, layer.bias, at, to)
            if layer.activation is not None:
                at, to = polynomial_image(layer.activation.coefficients, np.maximum(at, -1), np.minimum(to, 1))
        required_reach = max(reach, -float(at.min()), float(to.max()))
        reach = required_reach if proven or required_reach <= _MORE_ROOM * reach else reach
    return Ranges(tuple(low.tolist()), tuple(high.tolist()), reach, proven_share(layers, *box, reach))


def _fitted(
    weights: list[Floats], biases: list[Floats], fit: _Fit, x: Floats, box: tuple[Floats, Floats] | None
) -> tuple[tuple[Dense, ...], float]:
    """Returns layers with polynomial activations, and the largest intermediate magnitude.

    Each activation is fitted on the outputs of the previous layers. With a `box` of the features, intervals cover all
    samples inside it.
    """
    layers: list[Dense] = []
    largest = float(np.abs(x).max(initial=0))
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        z = weight @ x + bias[:, None]
        layer = Dense(weight, bias)
        if number + 1 < len(weights) and fit.name != "identity":
            covered = None
            if box is not None:
                at, to = box = image(weight, bias, *box)
                covered = float(at.min()), float(to.max())
            activation = _polynomial(fit, z.ravel(), covered)
            middle, half = (activation.high + activation.low) / 2, (activation.high - activation.low) / 2
            layer = Dense(weight / half, (bias - middle) / half, activation)
            if box is not None:
                box = polynomial_image(activation.coefficients, *(np.clip((end - middle) / half, -1, 1) for end in box))
        x = layer.clear(x)
        largest = max(largest, float(np.abs(x).max(initial=0)))
        layers.append(layer)
    return tuple(layers), largest


def _polynomial(fit: _Fit, z: Floats, covered: tuple[float, float] | None) -> Activation:
    """Returns a polynomial on an interval that contains the data and `covered`.

    It is the least-squares fit on the data and a grid over the interval, or the polynomial of the smallest degree within an
    error.
    """
    function = _activation(fit.name)
    middle, half = (z.max() + z.min()) / 2, max(float(np.ptp(z)) / 2, 1e-6) * fit.margin
    if covered is not None:
        low, high = min(covered[0], middle - half), max(covered[1], middle + half)
        middle, half = (high + low) / 2, (high - low) / 2
    if fit.error is None:
        coefficients = _least_squares(function, z, middle, half, fit.degree)
    else:
        coefficients = ckks.approximate(function, middle - half, middle + half, error=fit.error).coefficients
    errors = np.polynomial.chebyshev.chebval((z - middle) / half, coefficients) - function(z)
    return Activation(
        name=fit.name,
        low=float(middle - half),
        high=float(middle + half),
        coefficients=tuple(float(c) for c in coefficients),
        largest_error=float(np.abs(errors).max()),
        mean_error=float(np.sqrt(np.mean(errors**2))),
    )


def _least_squares(function: Callable[[Floats], Floats], z: Floats, middle: float, half: float, degree: int) -> Floats:
    """Returns the Chebyshev coefficients of the fit on the data and a grid over the interval."""
    data = z if len(z) <= _SAMPLES else np.random.default_rng(0).choice(z, _SAMPLES, replace=False)
    places = np.concatenate([(data - middle) / half, np.linspace(-1, 1, _GRID)])
    shares = np.concatenate([np.full(len(data), 1 / len(data)), np.full(_GRID, _GRID_WEIGHT / _GRID)])
    values = function(places * half + middle)
    return np.asarray(np.polynomial.chebyshev.chebfit(places, values, degree, w=np.sqrt(shares)))


def _exact(fitted: Fitted, weights: list[Floats], biases: list[Floats], x: Floats) -> Floats:
    """Returns the values [outputs, count] of encoded features [features, count], with the estimator's own activations."""
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = weight @ x + bias[:, None]
        if number + 1 < len(weights) and fitted.activation != "identity":
            x = _activation(fitted.activation)(x)
    return x


def _activation(name: str) -> Callable[[Floats], Floats]:
    if name not in _ACTIVATIONS:
        raise _core.DtypeError(f'an activation must be one of identity, {", ".join(_ACTIVATIONS)}, not "{name}"')
    return _ACTIVATIONS[name]


def _layered(layers: tuple[Dense, ...], x: Floats) -> Floats:
    """Returns the values [outputs, count] of encoded features [features, count], by the layers' polynomials."""
    for layer in layers:
        x = layer.clear(x)
    return x


def _compared(model: EstimatorModel, own: tuple[npt.NDArray[Any], Floats | None, Floats | None], values: Floats) -> Report:
    """Compares values [outputs, count] with the estimator's own predictions, decision values and probabilities."""
    predicted, decided, probabilities = own
    mirrored = model.predictions(values.T)
    with np.errstate(all="ignore"):
        if model.output.kind == "values":
            errors = np.where(mirrored == predicted, 0.0, np.abs(mirrored - predicted))  # exponentials may be infinite
        elif decided is not None:
            errors = np.abs((values[0] if decided.ndim == 1 else values.T) - decided)
        elif probabilities is not None and model.output.probability:
            errors = np.abs(model.probabilities(values.T) - probabilities)
        else:
            errors = np.asarray(mirrored != predicted).astype(np.float64)
    same = None
    if model.output.kind != "values":
        same = float(np.mean(np.asarray(mirrored == predicted).reshape(len(mirrored), -1).all(1)))
    activations = tuple(layer.activation for layer in model.layers if layer.activation is not None)
    return Report(len(mirrored), float(errors.max()), float(np.sqrt(np.mean(errors**2))), same, activations)
