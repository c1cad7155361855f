"""Estimator bundles: fitted linear models and perceptrons of scikit-learn (`heliograph.models.bundle`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import count_of, described, printable
from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.tensor import StageProgress
from heliograph.keys import SecretKey, Server
from heliograph.ml.estimators import EstimatorModel
from heliograph.ml.inputs import MOST_RANGES, Inputs, single, some
from heliograph.ml.layers import Activation, Dense, Floats
from heliograph.ml.outputs import Output
from heliograph.ml.ranges import Ranges, room_of
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, sent_bytes, write
from heliograph.models.header import count_in, fields_of, list_in, real_in, text_in

Arrays = dict[str, npt.NDArray[Any]]
_MOST_LAYERS, _MOST_UNITS, _MOST_WEIGHTS, _MOST_DEGREE = 64, 1 << 16, 1 << 26, 1 << 12
_LARGEST = 2.0**1000  # largest reach, so that sums of such values are finite
_LONGEST_NAME = 200  # maximum characters of a column's or class's name
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
    return _core.DamagedFileError(f"damaged estimator bundle: {what}")


def words(values: Any) -> npt.NDArray[np.uint64]:
    """Returns doubles as their 64-bit words, for files."""
    return np.ascontiguousarray(values, dtype="<f8").view("<u8")


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Floats:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != np.uint64:
        raise _damaged(f"{name} must be an array of uint64 of shape {shape}")
    values: Floats = np.ascontiguousarray(found, dtype="<u8").view("<f8").astype(np.float64)
    if not np.isfinite(values).all():
        raise _damaged(f"the weights of {name} must be finite")
    return values


def _layers(description: Any, arrays: Arrays | None) -> tuple[Dense, ...]:
    """Reads the layers of a file. A client's half has weights of zero that take no memory."""
    layers: list[Dense] = []
    names = set()
    for number, one in enumerate(list_in(description, "layers", _MOST_LAYERS)):
        fields = fields_of(one, "activation", "degree", "inputs", "outputs")
        inputs, outputs = (count_in(fields[name], name, 1, _MOST_UNITS) for name in ("inputs", "outputs"))
        degree = count_in(fields["degree"], "degree", 0, _MOST_DEGREE)
        name = text_in(fields["activation"], "activation")
        if inputs * outputs > _MOST_WEIGHTS or (layers and len(layers[-1].bias) != inputs) or (name == "") != (degree == 0):
            raise _damaged(
                f"layer {number} must fit the layer before it, be of at most {_MOST_WEIGHTS:,} weights, and have a degree "
                "only with an activation"
            )
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
        activation = Activation(name, low, high, tuple(coefficients), 0.0, 0.0) if name else None
        layers.append(Dense(weight, bias, activation))
    if not layers or layers[-1].activation is not None or (arrays is not None and set(arrays) != names):
        raise _damaged("it must have at least one layer, the last without an activation, and only the arrays of its layers")
    return tuple(layers)


def _ranges_fields(ranges: Ranges) -> dict[str, Any]:
    """Returns ranges for a header: one for each feature, or one for all if there are more than `MOST_RANGES`."""
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


def _ranges(description: Any, features: int, inputs: Inputs) -> Ranges:
    """Reads the ranges of a file. Raises DamagedFileError."""
    fields = fields_of(description, "high", "low", "proven", "reach")
    low, high = (
        tuple(real_in(one, "range of a feature") for one in list_in(fields[name], "ranges", MOST_RANGES))
        for name in ("low", "high")
    )
    proven, reach = real_in(fields["proven"], "proven share"), real_in(fields["reach"], "reach")
    if not len(low) == len(high) == (1 if features > MOST_RANGES else features):
        raise _damaged(f"it must have a range for each of {features} features, or one for more than {MOST_RANGES:,}")
    if any(a > b for a, b in zip(low, high, strict=True)) or not 0 <= proven <= 1:
        raise _damaged("each range must have its lower end first, and the proven share must be 0 to 1")
    ranges = Ranges(low * (features // len(low)), high * (features // len(high)), reach, proven)
    with np.errstate(all="ignore"):
        ends = inputs.encoded(np.array([ranges.low, ranges.high]).T)
    if not 0 < reach < _LARGEST or not np.abs(ends).max() <= reach:
        raise _damaged("its ranges must be within its reach, a finite number above 0")
    return ranges


def _inputs_fields(inputs: Inputs, features: int) -> dict[str, Any]:
    """Returns column names, centres and units for a header. Raises ParameterError for too many or too long names."""
    if len(inputs.names) > MOST_RANGES or any(len(name) > _LONGEST_NAME for name in inputs.names):
        raise _core.ParameterError(
            f"cannot export this model: its columns must be at most {MOST_RANGES:,}, with names of at most {_LONGEST_NAME} "
            "characters; fit the estimator on an array without names"
        )
    count = 1 if features > MOST_RANGES else features
    return {
        "centre": [value.hex() for value in inputs.centre[:count]],
        "columns": list(inputs.names),
        "unit": [value.hex() for value in inputs.unit[:count]],
    }


def _inputs(fields: dict[str, Any], features: int) -> Inputs:
    """Reads the encoding of features of a file. Raises DamagedFileError."""
    names = list_in(fields["columns"], "columns", MOST_RANGES)
    if any(not isinstance(name, str) or len(name) > _LONGEST_NAME for name in names) or len(names) not in (0, features):
        raise _damaged(f"column names must be {features} strings of at most {_LONGEST_NAME} characters, or none")
    centre, unit = (
        tuple(real_in(one, f"{name} of a feature") for one in list_in(fields[name], name, MOST_RANGES))
        for name in ("centre", "unit")
    )
    count = 1 if features > MOST_RANGES else features
    if not {len(centre), len(unit)} <= {0, count} or any(abs(value) > _LARGEST for value in centre):
        raise _damaged(f"it must have {count} centres and units, or none, of at most 2^1000 in magnitude")
    if any(not 1 / _LARGEST <= value <= _LARGEST for value in unit):
        raise _damaged("units must be from 2^-1000 to 2^1000")
    return Inputs(tuple(names), centre * (features // count), unit * (features // count))


def _output_fields(output: Output) -> dict[str, Any]:
    return {"column": output.column, "kind": output.kind, "link": output.link, "probability": output.probability}


def _output(description: Any) -> Output:
    """Reads the output of a file; the model checks it. Raises DamagedFileError."""
    fields = fields_of(description, "column", "kind", "link", "probability")
    if type(fields["column"]) is not bool:
        raise _damaged("the field column of the output must be true or false")
    kind, link, probability = (text_in(fields[name], name) for name in ("kind", "link", "probability"))
    return Output(kind, link, probability, fields["column"])


def classes_fields(classes: npt.NDArray[Any]) -> dict[str, Any]:
    """Returns classes with their type for a header.

    Raises ParameterError for classes other than booleans, numbers and strings.
    """
    kind = "str" if classes.dtype.kind in "UT" else classes.dtype.name
    values = classes.tolist()
    if kind not in _CLASSES or (kind == "object" and not all(isinstance(value, str) for value in values)):
        raise _core.ParameterError(
            f"cannot export this model: its classes must be booleans, numbers or strings, not of the type {classes.dtype}; "
            "pass labels= with a text for each"
        )
    return {"type": kind, "values": [value.hex() if isinstance(value, float) else str(value) for value in values]}


def read_classes(description: Any, outputs: int) -> npt.NDArray[Any]:
    """Reads the classes of a file. Raises DamagedFileError."""
    fields = fields_of(description, "type", "values")
    kind, values = text_in(fields["type"], "type of classes"), list_in(fields["values"], "classes", _MOST_UNITS)
    if kind not in _CLASSES or len(values) != (2 if outputs == 1 else outputs) or len({*map(repr, values)}) < len(values):
        raise _damaged(f"it must have a class for each value, without duplicates, of a type among {', '.join(_CLASSES)}")
    if any(not isinstance(value, str) or len(value) > _LONGEST_NAME for value in values):
        raise _damaged(f"a class must be a string of at most {_LONGEST_NAME} characters")
    if kind in ("str", "object"):
        return np.array(values, dtype=kind)
    if kind.startswith("float"):
        classes = np.array([real_in(value, "class") for value in values], dtype=np.float64).astype(kind)
    else:
        try:
            numbers = [{"True": True, "False": False}[value] if kind == "bool" else int(value[:24]) for value in values]
            classes = np.array(numbers, dtype=kind)
        except (KeyError, ValueError, OverflowError):
            raise _damaged(f"a class must be a value of the type {kind}") from None
    if classes_fields(classes)["values"] != values:
        raise _damaged(f"a class must be a value of the type {kind}")
    return classes


def _fields(description: Any) -> tuple[dict[str, Any], int]:
    """Returns the fields of a file's model, and the first format that has them."""
    if isinstance(description, dict) and "output" in description:
        return fields_of(description, "centre", "classes", "columns", "layers", "name", "output", "ranges", "unit"), 3
    has_ranges = isinstance(description, dict) and "ranges" in description  # files of format 1 have no ranges
    return fields_of(
        description, "classifies", "layers", "name", *(["ranges"] if has_ranges else [])
    ), 2 if has_ranges else 1


def scores_of(model: Any, scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns decrypted scores, after a check of their shape. Raises ShapeError."""
    if scores.ndim not in (1, 2) or scores.shape[-1] != model.outputs:
        raise _core.ShapeError(
            f"scores of {model.name} must be [samples, {model.outputs}], as decrypt returns them, not of shape "
            f"{scores.shape}"
        )
    return scores


@form
class EstimatorForm(Form):
    """A fitted estimator: a ciphertext for each feature, a slot for each sample."""

    kind = "estimator"

    def __init__(
        self, model: EstimatorModel, parameters: Any, complete: bool = True, *, typed: bool = True, format: int = 3
    ) -> None:
        """Describes a model for a file. With ``typed=False`` predictions are labels in place of the model's classes."""
        if not isinstance(parameters, ckks.Parameters):
            raise _core.DtypeError(f"estimators are exported with parameters of CKKS, not {described(parameters)}")
        if parameters.levels < model.depth + 1:
            raise _core.ParameterError(
                f"the set must have at least the {model.depth} multiplications that {model.name} takes, not "
                f"{parameters.levels - 1}"
            )
        if model.ranges is not None and (room := room_of(parameters, parameters.levels - model.depth)) < model.ranges.reach:
            raise _core.ParameterError(
                f"the set must have room for results of {model.name}, up to {model.ranges.reach:.6g}, but has room for "
                f"{room:.6g}: use more integer_bits, or model.parameters(samples=...)"
            )
        if parameters.slots != parameters.period:
            raise _core.ParameterError(
                f"a set for estimators must have a power of two of slots, not {parameters.slots:,}; use "
                "model.parameters(samples=...)"
            )
        self.model, self.parameters, self.complete = model, parameters, complete
        self.typed, self.format = typed and model.output.kind == "class", format

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> EstimatorForm:
        """Creates the model from a file's fields and arrays."""
        fields, version = _fields(description)
        layers = _layers(fields["layers"], arrays)
        features, outputs = layers[0].weight.shape[1], len(layers[-1].bias)
        inputs, output, classes = Inputs(), Output(), None
        if version == 3:
            inputs, output = _inputs(fields, features), _output(fields["output"])
            classes = None if fields["classes"] is None else read_classes(fields["classes"], outputs)
        elif type(fields["classifies"]) is not bool:
            raise _damaged("the field classifies must be true or false")
        elif fields["classifies"]:
            output = Output("class")
        if classes is not None and output.kind != "class":
            raise _damaged("classes are for an output of the kind class only")
        typed = classes is not None
        if output.kind == "class" and classes is None:
            classes = np.arange(2 if outputs == 1 else outputs)
        ranges = None if fields.get("ranges") is None and version != 2 else _ranges(fields["ranges"], features, inputs)
        complete, name = arrays is not None, text_in(fields["name"], "name")
        try:
            model = EstimatorModel(
                name, layers, classes, False, math.inf, ranges=ranges, complete=complete, inputs=inputs, output=output
            )
            return cls(model, parameters, complete, typed=typed, format=version)
        except (_core.ParameterError, _core.DtypeError) as error:
            raise _damaged(str(error)) from None

    def described(self) -> dict[str, Any]:
        """Returns the model without its weights."""
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
            "classes": classes_fields(np.asarray(model.classes)) if self.typed else None,
            "layers": layers,
            "name": model.name,
            "output": _output_fields(model.output),
            "ranges": None if model.ranges is None else _ranges_fields(model.ranges),
            **_inputs_fields(model.inputs, model.features),
        }

    def arrays(self) -> Arrays:
        """Returns the weights and the polynomials of activations."""
        arrays: Arrays = {}
        for number, layer in enumerate(self.model.layers):
            arrays[f"weight{number}"] = words(layer.weight)
            arrays[f"bias{number}"] = words(layer.bias)
            if (a := layer.activation) is not None:
                arrays[f"activation{number}"] = words([a.low, a.high, *a.coefficients])
        return arrays

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": True}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The samples."""
        text = "a ciphertext for each feature, a slot for each sample; samples are repeated to fill the slots"
        if self.model.inputs.centre or self.model.inputs.unit:
            text += "; (feature - centre) / unit is encrypted"
        shape, slots, feature_ranges = (self.model.features,), int(self.parameters.slots), self.model.ranges
        if feature_ranges is None:
            return (TensorSpec("samples", shape, "float64", None, None, "batch", slots, text),)
        ranges = tuple(zip(feature_ranges.low, feature_ranges.high, strict=True))
        return (
            TensorSpec(
                "samples", shape, "float64", min(feature_ranges.low), max(feature_ranges.high), "batch", slots, text, ranges
            ),
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The predictions or decision values."""
        texts = {
            "values": "predictions" if self.model.output.link == "identity" else "logarithms of predictions",
            "class": "decision values; the class is that of the largest one, or of the sign of a single one",
            "labels": "decision values; a label applies if its value is above 0",
        }
        text = texts[self.model.output.kind]
        reach = None if self.model.ranges is None else self.model.ranges.reach
        low = None if reach is None else -reach
        return (
            TensorSpec("values", (self.model.outputs,), "float64", low, reach, "batch", int(self.parameters.slots), text),
        )

    def rows(self) -> Rows:
        """Describes the layers, columns and ranges."""
        sizes = " -> ".join(str(n) for n in (self.model.features, *(len(layer.bias) for layer in self.model.layers)))
        names = self.model.inputs.names
        more = [("columns", printable(some(names)))] if names else []
        more += [] if self.model.ranges is None else [("features", self.model.ranges.summary())]
        return [("estimator", f"{self.model.name}: {sizes}, {self.model.depth} levels"), *more]

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> ckks.Tensor:
        """Encrypts one or several samples."""
        _, alone = self.count(x)
        return self.model.encrypt(key, single(x) if alone else x, unchecked=unchecked)

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], ckks.Tensor]:
        """Returns the function of a request."""

        def run(tensors: tuple[Any, ...], _: StageProgress | None) -> ckks.Tensor:
            if len(tensors) != 1 or tensors[0].shape != (self.model.features,):
                shapes = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request must be one tensor of shape ({self.model.features},), not {shapes}")
            return self.model(tensors[0])

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Floats:
        """Returns values [samples, outputs]."""
        try:
            values = secret.decrypt(tensor, unchecked=unchecked)
        except _core.OutOfIntervalError as error:
            raise _core.OutOfIntervalError(
                f"{str(error).split(',')[0]}: a sample drives {self.model.name} outside its calibrated intervals, and all "
                "results of this request may be wrong. Send samples like those of the calibration, or pass "
                "unchecked=True to take the numbers as they are"
            ) from None
        if values.shape != (self.model.outputs, self.parameters.slots):
            raise _core.ShapeError(
                f"an answer of {self.model.name} must have shape ({self.model.outputs},), not {values.shape[:-1]}"
            )
        return np.ascontiguousarray(values.real.T)

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """Returns the estimator's predictions: its classes, or the labels that replace them."""
        classes = np.asarray(labels) if labels and not self.typed else self.model.classes
        return self.model.output.predict(scores_of(self.model, scores), classes)

    def predict_proba(self, scores: npt.NDArray[Any]) -> Floats:
        """Returns the estimator's probabilities. Raises DtypeError for a file of an older format."""
        if self.format < 3:
            raise _core.DtypeError(
                f"a file of format {self.format} does not say how {self.model.name} makes probabilities; export the model "
                "again"
            )
        return self.model.output.probabilities(scores_of(self.model, scores), self.model.name)

    def byte_counts(self) -> dict[str, int]:
        """Measures bytes by a run on the `null` device."""
        parameters = ckks.Parameters(self.parameters._core.on_device("null"))
        secret = SecretKey.generate(parameters)
        server: Server[Any] = Server(secret.evaluation_keys(**self.needs))
        x = server.bind(secret.encrypt(np.zeros((self.model.features, parameters.slots))))
        y = self.model(x._as_received())  # the answer to a request has guards
        return {
            "input_bytes": sent_bytes(x),
            "output_bytes": sent_bytes(y),
            "memory_bytes": int(parameters._core.peak_bytes),
        }


def _export(
    model: EstimatorModel, path: Any, parameters: Any = None, samples: Any = 0, labels: Any = None, **texts: Any
) -> ModelBundle:
    if parameters is None:
        parameters = model.parameters(samples=count_of(samples, "samples"))
    form = EstimatorForm(model, parameters, typed=labels is None)
    if labels is None and form.typed:
        labels = [str(name) for name in np.asarray(model.classes).tolist()]
    return write(form, path, labels=labels, **texts)


EXPORTERS[EstimatorForm.kind] = _export
