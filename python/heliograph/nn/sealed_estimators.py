"""Sealed estimators: linear models and perceptrons that scikit-learn has fitted (`heliograph.sealed`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._arrays import array_of, count_of, described
from heliograph._html import Rows
from heliograph._sealing import SEALERS
from heliograph.keys import SecretKey, Server
from heliograph.nn.estimators import Activation, Dense, Model
from heliograph.nn.ranges import Floats, Ranges, room_of
from heliograph.sealed import (
    Form,
    SealedModel,
    Side,
    Watch,
    count_in,
    fields_of,
    form,
    list_in,
    real_in,
    sent_bytes,
    text_in,
    write,
)

Arrays = dict[str, npt.NDArray[Any]]
_MOST_LAYERS, _MOST_UNITS, _MOST_WEIGHTS, _MOST_DEGREE = 64, 1 << 16, 1 << 26, 1 << 12
_LARGEST = 2.0**1000  # of a reach: sums of such values stay finite
_MOST_RANGES = 1 << 14  # that a header has room for; more features share one range


def _damaged(what: str) -> _core.DamagedFileError:
    return _core.DamagedFileError(f"a sealed estimator {what}")


def _words(values: Any) -> npt.NDArray[np.uint64]:
    """Doubles as files have them: their 64 bits."""
    return np.ascontiguousarray(values, dtype="<f8").view("<u8")


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Floats:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != np.uint64:
        raise _damaged("has weights of another shape than it says")
    values: Floats = np.ascontiguousarray(found, dtype="<u8").view("<f8").astype(np.float64)
    if not np.isfinite(values).all():
        raise _damaged("has weights that are no numbers")
    return values


def _layers(said: Any, arrays: Arrays | None) -> tuple[Dense, ...]:
    """Those of a file; of a client's half with weights of zero that take no memory."""
    layers: list[Dense] = []
    names = set()
    for number, one in enumerate(list_in(said, "layers", _MOST_LAYERS)):
        fields = fields_of(one, "activation", "degree", "inputs", "outputs")
        inputs, outputs = (count_in(fields[name], name, 1, _MOST_UNITS) for name in ("inputs", "outputs"))
        degree = count_in(fields["degree"], "degree", 0, _MOST_DEGREE)
        name = text_in(fields["activation"], "activation")
        if inputs * outputs > _MOST_WEIGHTS or (layers and len(layers[-1].bias) != inputs) or (name == "") != (degree == 0):
            raise _damaged("has layers that do not fit each other")
        weight: Floats = np.broadcast_to(np.float64(0), (outputs, inputs))
        bias: Floats = np.broadcast_to(np.float64(0), (outputs,))
        low, high, *coefficients = [-1.0, 1.0, *([0.0] * (degree + 1))]
        if arrays is not None:
            weight, bias = (
                _array(arrays, f"weight{number}", (outputs, inputs)),
                _array(arrays, f"bias{number}", (outputs,)),
            )
            if name:
                low, high, *coefficients = _array(arrays, f"activation{number}", (degree + 3,)).tolist()
            names |= {f"weight{number}", f"bias{number}", *([f"activation{number}"] if name else [])}
        made = Activation(name, low, high, tuple(coefficients), 0.0, 0.0) if name else None
        layers.append(Dense(weight, bias, made))
    if not layers or layers[-1].activation is not None or (arrays is not None and set(arrays) != names):
        raise _damaged("has no layers, or other arrays than layers")
    return tuple(layers)


def _said_ranges(ranges: Ranges) -> dict[str, Any]:
    """Ranges as headers have them: of each feature, or one of all where these are very many."""
    low, high = ranges.low, ranges.high
    if len(low) > _MOST_RANGES:
        low, high = (min(low),), (max(high),)
    proven = ranges.proven if len(low) == len(ranges.low) else 0.0
    return {
        "high": [value.hex() for value in high],
        "low": [value.hex() for value in low],
        "proven": proven.hex(),
        "reach": ranges.reach.hex(),
    }


def _ranges(said: Any, features: int) -> Ranges:
    """Those of a file. Raises DamagedFileError."""
    fields = fields_of(said, "high", "low", "proven", "reach")
    low, high = (
        tuple(real_in(one, "range of a feature") for one in list_in(fields[name], "ranges", _MOST_RANGES))
        for name in ("low", "high")
    )
    proven, reach = real_in(fields["proven"], "proven share"), real_in(fields["reach"], "reach")
    if not len(low) == len(high) == (1 if features > _MOST_RANGES else features):
        raise _damaged("has other ranges than features")
    if any(a > b for a, b in zip(low, high, strict=True)) or not 0 <= proven <= 1:
        raise _damaged("has a range whose ends are reversed, or a proven share that is none")
    if not 0 < reach < _LARGEST or max(map(abs, (*low, *high))) > reach:
        raise _damaged("has ranges beyond its own reach")
    return Ranges(low * (features // len(low)), high * (features // len(high)), reach, proven)


@form
class EstimatorForm(Form):
    """A fitted estimator: a feature a ciphertext, a sample a slot."""

    kind = "estimator"

    def __init__(self, model: Model, parameters: Any, complete: bool = True) -> None:
        if not isinstance(parameters, ckks.Parameters):
            raise _core.DtypeError(f"estimators are sealed with parameters of CKKS, not {described(parameters)}")
        if parameters.levels < model.depth + 1:
            raise _core.ParameterError(f"{model.name} takes {model.depth} levels; this set has {parameters.levels - 1}")
        if model.ranges is not None and (room := room_of(parameters, parameters.levels - model.depth)) < model.ranges.reach:
            raise _core.ParameterError(
                f"results of {model.name} may be as large as {model.ranges.reach:.6g}; this set has room for {room:.6g}: take more "
                "integer_bits, or model.parameters(samples=...)"
            )
        if parameters.slots != parameters.period:
            raise _core.ParameterError("a set for estimators has a power of two of slots: model.parameters finds one")
        self.model, self.parameters, self.complete = model, parameters, complete
        self.format = 1 if model.ranges is None else 2

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> EstimatorForm:
        """Of a file."""
        known = isinstance(said, dict) and "ranges" in said  # format 1 has none
        fields = fields_of(said, "classifies", "layers", "name", *(["ranges"] if known else []))
        if type(fields["classifies"]) is not bool:
            raise _damaged("does not say whether it classifies")
        layers = _layers(fields["layers"], arrays)
        outputs = len(layers[-1].bias)
        classes = np.arange(2 if outputs == 1 else outputs) if fields["classifies"] else None
        ranges = _ranges(fields["ranges"], layers[0].weight.shape[1]) if known else None
        complete, name = arrays is not None, text_in(fields["name"], "name")
        try:
            model = Model(name, layers, classes, False, math.inf, ranges=ranges, complete=complete)
            return cls(model, parameters, complete)
        except (_core.ParameterError, _core.DtypeError) as error:
            raise _damaged(f"cannot be: {error}") from None

    def described(self) -> dict[str, Any]:
        """Layers, without weights."""
        layers = [
            {
                "activation": "" if layer.activation is None else layer.activation.name,
                "degree": 0 if layer.activation is None else layer.activation.degree,
                "inputs": int(layer.weight.shape[1]),
                "outputs": int(layer.weight.shape[0]),
            }
            for layer in self.model.layers
        ]
        known = {} if self.model.ranges is None else {"ranges": _said_ranges(self.model.ranges)}
        return {"classifies": self.model.classes is not None, "layers": layers, "name": self.model.name, **known}

    def arrays(self) -> Arrays:
        """Weights and polynomials."""
        arrays: Arrays = {}
        for number, layer in enumerate(self.model.layers):
            arrays[f"weight{number}"] = _words(layer.weight)
            arrays[f"bias{number}"] = _words(layer.bias)
            if (a := layer.activation) is not None:
                arrays[f"activation{number}"] = _words([a.low, a.high, *a.coefficients])
        return arrays

    @property
    def needs(self) -> dict[str, Any]:
        """Relinearization."""
        return {"relinearize": True}

    @property
    def inputs(self) -> tuple[Side, ...]:
        """Samples."""
        text = "a feature a ciphertext, a sample a slot; samples are repeated to fill the slots"
        shape, slots, known = (self.model.features,), int(self.parameters.slots), self.model.ranges
        if known is None:
            return (Side("samples", shape, "float64", None, None, "batch", slots, text),)
        ranges = tuple(zip(known.low, known.high, strict=True))
        return (Side("samples", shape, "float64", min(known.low), max(known.high), "batch", slots, text, ranges),)

    @property
    def outputs(self) -> tuple[Side, ...]:
        """Predictions, or decision values."""
        text = "predictions" if self.model.classes is None else "decision values; the class is the largest's, or the sign's"
        reach = None if self.model.ranges is None else self.model.ranges.reach
        low = None if reach is None else -reach
        return (Side("values", (self.model.outputs,), "float64", low, reach, "batch", int(self.parameters.slots), text),)

    def rows(self) -> Rows:
        """Its layers."""
        sizes = " -> ".join(str(n) for n in (self.model.features, *(len(layer.bias) for layer in self.model.layers)))
        known = [] if self.model.ranges is None else [("features", self.model.ranges.summary())]
        return [("estimator", f"{self.model.name}: {sizes}, {self.model.depth} levels"), *known]

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> ckks.Tensor:
        """Of one sample or several."""
        _, alone = self.count(x)
        return self.model.encrypt(key, array_of(x, "the samples")[None] if alone else x, unchecked=unchecked)

    def prepared(self) -> Callable[[tuple[Any, ...], Watch | None], ckks.Tensor]:
        """The layers."""

        def run(tensors: tuple[Any, ...], _: Watch | None) -> ckks.Tensor:
            if len(tensors) != 1 or tensors[0].shape != (self.model.features,):
                found = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request is one tensor of shape ({self.model.features},), not {found}")
            return self.model(tensors[0])

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Floats:
        """Values [samples, outputs]."""
        values = secret.decrypt(tensor, unchecked=unchecked)
        if values.shape != (self.model.outputs, self.parameters.slots):
            raise _core.ShapeError(f"this is no answer of {self.model.name}: {values.shape[:-1]} ciphertexts")
        return np.ascontiguousarray(values.real.T)

    def predict(self, scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A class's number; of a regressor its prediction."""
        if self.model.classes is None:
            return scores[..., 0] if self.model.outputs == 1 else scores
        return (scores[..., 0] > 0).astype(np.int64) if self.model.outputs == 1 else np.asarray(scores.argmax(-1))

    def figures(self) -> dict[str, int]:
        """By a run on the device that computes nothing."""
        parameters = ckks.Parameters(self.parameters._core.on_device("null"))
        secret = SecretKey.generate(parameters)
        server: Server[Any] = Server(secret.evaluation_keys(**self.needs))
        x = server.bind(self.model.encrypt(secret, np.zeros((1, self.model.features)), unchecked=True))
        y = self.model(x)
        return {
            "input_bytes": sent_bytes(x),
            "output_bytes": sent_bytes(y),
            "memory_bytes": int(parameters._core.peak_bytes),
        }


def _seal(
    model: Model, path: Any, parameters: Any = None, samples: Any = 0, labels: Any = None, **texts: Any
) -> SealedModel:
    if parameters is None:
        parameters = model.parameters(samples=count_of(samples, "samples"))
    if labels is None and model.classes is not None:
        labels = [str(name) for name in model.classes.tolist()]
    return write(EstimatorForm(model, parameters), path, labels=labels, **texts)


SEALERS[EstimatorForm.kind] = _seal
