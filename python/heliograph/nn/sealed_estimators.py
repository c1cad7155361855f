"""Sealed estimators: linear models and perceptrons that scikit-learn has fitted (`heliograph.sealed`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._arrays import count_of, described, printable
from heliograph._html import Rows
from heliograph._sealing import SEALERS
from heliograph.keys import SecretKey, Server
from heliograph.nn.estimators import Activation, Dense, Model
from heliograph.nn.inputs import MOST_RANGES, Inputs, single, some
from heliograph.nn.outputs import Output
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
_LONGEST_NAME = 200  # of a column or a class, in characters
#: Types of classes, as NumPy names them.
_CLASSES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "str",
    "object",
)


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
    if len(low) > MOST_RANGES:
        low, high = (min(low),), (max(high),)
    proven = ranges.proven if len(low) == len(ranges.low) else 0.0
    return {
        "high": [value.hex() for value in high],
        "low": [value.hex() for value in low],
        "proven": proven.hex(),
        "reach": ranges.reach.hex(),
    }


def _ranges(said: Any, features: int, inputs: Inputs) -> Ranges:
    """Those of a file. Raises DamagedFileError."""
    fields = fields_of(said, "high", "low", "proven", "reach")
    low, high = (
        tuple(real_in(one, "range of a feature") for one in list_in(fields[name], "ranges", MOST_RANGES))
        for name in ("low", "high")
    )
    proven, reach = real_in(fields["proven"], "proven share"), real_in(fields["reach"], "reach")
    if not len(low) == len(high) == (1 if features > MOST_RANGES else features):
        raise _damaged("has other ranges than features")
    if any(a > b for a, b in zip(low, high, strict=True)) or not 0 <= proven <= 1:
        raise _damaged("has a range whose ends are reversed, or a proven share that is none")
    found = Ranges(low * (features // len(low)), high * (features // len(high)), reach, proven)
    with np.errstate(all="ignore"):
        ends = inputs.encoded(np.array([found.low, found.high]).T)
    if not 0 < reach < _LARGEST or not np.abs(ends).max() <= reach:
        raise _damaged("has ranges beyond its own reach")
    return found


def _said_inputs(inputs: Inputs, features: int) -> dict[str, Any]:
    """Columns' names, centres and units as headers have them. Raises ParameterError for names that no header has room for."""
    if len(inputs.names) > MOST_RANGES or any(len(name) > _LONGEST_NAME for name in inputs.names):
        raise _core.ParameterError(
            f"cannot seal this model: its columns must be at most {MOST_RANGES:,}, with names of at most {_LONGEST_NAME} characters; fit the "
            "estimator on an array without names"
        )
    count = 1 if features > MOST_RANGES else features
    return {
        "centre": [value.hex() for value in inputs.centre[:count]],
        "columns": list(inputs.names),
        "unit": [value.hex() for value in inputs.unit[:count]],
    }


def _inputs(fields: dict[str, Any], features: int) -> Inputs:
    """Those of a file. Raises DamagedFileError."""
    names = list_in(fields["columns"], "columns", MOST_RANGES)
    if any(not isinstance(name, str) or len(name) > _LONGEST_NAME for name in names) or len(names) not in (0, features):
        raise _damaged("has columns' names that are none, or other ones than features")
    centre, unit = (
        tuple(real_in(one, f"{name} of a feature") for one in list_in(fields[name], name, MOST_RANGES))
        for name in ("centre", "unit")
    )
    count = 1 if features > MOST_RANGES else features
    if not {len(centre), len(unit)} <= {0, count} or any(abs(value) > _LARGEST for value in centre):
        raise _damaged("has other centres or units than features")
    if any(not 1 / _LARGEST <= value <= _LARGEST for value in unit):
        raise _damaged("has a unit that cannot be")
    return Inputs(tuple(names), centre * (features // count), unit * (features // count))


def _said_output(output: Output) -> dict[str, Any]:
    return {"column": output.column, "kind": output.kind, "link": output.link, "probability": output.probability}


def _output(said: Any) -> Output:
    """The rule of a file, which its model checks. Raises DamagedFileError."""
    fields = fields_of(said, "column", "kind", "link", "probability")
    if type(fields["column"]) is not bool:
        raise _damaged("does not say whether its predictions are a column")
    kind, link, probability = (text_in(fields[name], name) for name in ("kind", "link", "probability"))
    return Output(kind, link, probability, fields["column"])


def _said_classes(classes: npt.NDArray[Any]) -> dict[str, Any]:
    """Classes with their type. Raises ParameterError for others than truth values, numbers and texts."""
    kind = "str" if classes.dtype.kind in "UT" else classes.dtype.name
    values = classes.tolist()
    if kind not in _CLASSES or (kind == "object" and not all(isinstance(value, str) for value in values)):
        raise _core.ParameterError(
            f"cannot seal this model: its classes must be truth values, numbers or texts, not of the type {classes.dtype}; pass labels= with a "
            "text for each"
        )
    return {"type": kind, "values": [value.hex() if isinstance(value, float) else str(value) for value in values]}


def _classes(said: Any, outputs: int) -> npt.NDArray[Any]:
    """Those of a file. Raises DamagedFileError."""
    fields = fields_of(said, "type", "values")
    kind, values = text_in(fields["type"], "type of classes"), list_in(fields["values"], "classes", _MOST_UNITS)
    if kind not in _CLASSES or len(values) != (2 if outputs == 1 else outputs) or len({*map(repr, values)}) < len(values):
        raise _damaged("has classes of a type that is none, or other ones than values")
    if any(not isinstance(value, str) or len(value) > _LONGEST_NAME for value in values):
        raise _damaged("has a class that is no text, or too long")
    if kind in ("str", "object"):
        return np.array(values, dtype=kind)
    if kind.startswith("float"):
        made = np.array([real_in(value, "class") for value in values], dtype=np.float64).astype(kind)
    else:
        try:
            numbers = [{"True": True, "False": False}[value] if kind == "bool" else int(value[:24]) for value in values]
            made = np.array(numbers, dtype=kind)
        except (KeyError, ValueError, OverflowError):
            raise _damaged("has a class that is none of its type") from None
    if _said_classes(made)["values"] != values:
        raise _damaged("has a class that is none of its type")
    return made


def _fields(said: Any) -> tuple[dict[str, Any], int]:
    """The fields of a file's model, and the first format that has them."""
    if isinstance(said, dict) and "output" in said:
        return fields_of(said, "centre", "classes", "columns", "layers", "name", "output", "ranges", "unit"), 3
    known = isinstance(said, dict) and "ranges" in said  # format 1 has none
    return fields_of(said, "classifies", "layers", "name", *(["ranges"] if known else [])), 2 if known else 1


@form
class EstimatorForm(Form):
    """A fitted estimator: a feature a ciphertext, a sample a slot."""

    kind = "estimator"

    def __init__(self, model: Model, parameters: Any, complete: bool = True, *, typed: bool = True, format: int = 3) -> None:
        """Without `typed`, predictions are labels in place of the model's classes."""
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
        self.typed, self.format = typed and model.output.kind == "class", format

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> EstimatorForm:
        """Of a file."""
        fields, version = _fields(said)
        layers = _layers(fields["layers"], arrays)
        features, outputs = layers[0].weight.shape[1], len(layers[-1].bias)
        inputs, output, classes = Inputs(), Output(), None
        if version == 3:
            inputs, output = _inputs(fields, features), _output(fields["output"])
            classes = None if fields["classes"] is None else _classes(fields["classes"], outputs)
        elif type(fields["classifies"]) is not bool:
            raise _damaged("does not say whether it classifies")
        elif fields["classifies"]:
            output = Output("class")
        if classes is not None and output.kind != "class":
            raise _damaged("has classes and does not classify")
        typed = classes is not None
        if output.kind == "class" and classes is None:
            classes = np.arange(2 if outputs == 1 else outputs)
        ranges = None if fields.get("ranges") is None and version != 2 else _ranges(fields["ranges"], features, inputs)
        complete, name = arrays is not None, text_in(fields["name"], "name")
        try:
            model = Model(
                name, layers, classes, False, math.inf, ranges=ranges, complete=complete, inputs=inputs, output=output
            )
            return cls(model, parameters, complete, typed=typed, format=version)
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
        model = self.model
        return {
            "classes": _said_classes(np.asarray(model.classes)) if self.typed else None,
            "layers": layers,
            "name": model.name,
            "output": _said_output(model.output),
            "ranges": None if model.ranges is None else _said_ranges(model.ranges),
            **_said_inputs(model.inputs, model.features),
        }

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
        if self.model.inputs.centre or self.model.inputs.unit:
            text += "; encrypted are (feature - centre) / unit"
        shape, slots, known = (self.model.features,), int(self.parameters.slots), self.model.ranges
        if known is None:
            return (Side("samples", shape, "float64", None, None, "batch", slots, text),)
        ranges = tuple(zip(known.low, known.high, strict=True))
        return (Side("samples", shape, "float64", min(known.low), max(known.high), "batch", slots, text, ranges),)

    @property
    def outputs(self) -> tuple[Side, ...]:
        """Predictions, or decision values."""
        texts = {
            "values": "predictions" if self.model.output.link == "identity" else "logarithms of predictions",
            "class": "decision values; the class is the largest's, or the sign's",
            "labels": "decision values; a label is there if its own is above 0",
        }
        text = texts[self.model.output.kind]
        reach = None if self.model.ranges is None else self.model.ranges.reach
        low = None if reach is None else -reach
        return (Side("values", (self.model.outputs,), "float64", low, reach, "batch", int(self.parameters.slots), text),)

    def rows(self) -> Rows:
        """Its layers."""
        sizes = " -> ".join(str(n) for n in (self.model.features, *(len(layer.bias) for layer in self.model.layers)))
        names = self.model.inputs.names
        known = [("columns", printable(some(names)))] if names else []
        known += [] if self.model.ranges is None else [("features", self.model.ranges.summary())]
        return [("estimator", f"{self.model.name}: {sizes}, {self.model.depth} levels"), *known]

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> ckks.Tensor:
        """Of one sample or several."""
        _, alone = self.count(x)
        return self.model.encrypt(key, single(x) if alone else x, unchecked=unchecked)

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

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """The estimator's predictions, of its own type; labels in place of classes if its maker gave some."""
        classes = np.asarray(labels) if labels and not self.typed else self.model.classes
        return self.model.output.predict(self._scores(scores), classes)

    def predict_proba(self, scores: npt.NDArray[Any]) -> Floats:
        """The estimator's probabilities."""
        if self.format < 3:
            raise _core.DtypeError(
                f"a file of format {self.format} does not say how {self.model.name} makes probabilities: seal the model anew"
            )
        return self.model.output.probabilities(self._scores(scores), self.model.name)

    def _scores(self, scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if scores.ndim not in (1, 2) or scores.shape[-1] != self.model.outputs:
            raise _core.ShapeError(
                f"scores of {self.model.name} are [samples, {self.model.outputs}], as decrypt gives them, not of shape {scores.shape}"
            )
        return scores

    def figures(self) -> dict[str, int]:
        """By a run on the device that computes nothing."""
        parameters = ckks.Parameters(self.parameters._core.on_device("null"))
        secret = SecretKey.generate(parameters)
        server: Server[Any] = Server(secret.evaluation_keys(**self.needs))
        x = server.bind(secret.encrypt(np.zeros((self.model.features, parameters.slots))))
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
    form = EstimatorForm(model, parameters, typed=labels is None)
    if labels is None and form.typed:
        labels = [str(name) for name in np.asarray(model.classes).tolist()]
    return write(form, path, labels=labels, **texts)


SEALERS[EstimatorForm.kind] = _seal
