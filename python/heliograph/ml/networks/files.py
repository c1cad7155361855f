"""Compiled networks as JSON and arrays, and back: the content of a bundle. Every field is checked before use."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.json import read_json
from heliograph.ml import shapes
from heliograph.ml.activations import FUNCTIONS
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import OPERATIONS, Graph, Node
from heliograph.ml.networks.cuts import Network, network_of
from heliograph.ml.networks.design import Design, design_of
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.placing import Place, Plan
from heliograph.ml.networks.program import Circuit, Units, arguments_of

Arrays = dict[str, npt.NDArray[Any]]
_PROGRAM = "network"  #: name of the array with the JSON
_MOST_DOUBLED = 2.0**40  # units of the factors of a product, relative to that of the product
_MOST_NODES, _LONGEST_NAME, _MOST_SIZE, _MOST_DEGREE = 1 << 16, 1000, 1 << 26, 1 << 12


def damaged(what: str) -> _core.DamagedFileError:
    """Returns the error of a file whose content is wrong."""
    return _core.DamagedFileError(f"damaged network: {what}")


def arrays_of(circuit: Circuit) -> Arrays:
    """Returns a compiled network as arrays: its weights as the words of floats, and JSON as bytes."""
    arrays: Arrays = {}

    def kept(array: Any) -> dict[str, str]:
        name = f"a{len(arrays)}"
        arrays[name] = _words(np.asarray(array, dtype=np.float64))
        return {"array": name}

    graph, plan, units = circuit.network.graph, circuit.plan, circuit.units
    text = {
        "constants": {name: kept(array) for name, array in graph.constants.items()},
        "guard": circuit.guard,
        "inputs": list(graph.inputs),
        "nodes": [
            {
                "attributes": {key: _written(value, kept) for key, value in node.attributes.items()},
                "inputs": list(node.inputs),
                "operation": node.operation,
                "output": node.output,
                "source": node.source[:_LONGEST_NAME],
            }
            for node in graph.nodes
        ],
        "outputs": list(graph.outputs),
        "plan": {name: [p.value, p.argument, p.before, p.after, p.form, p.filled] for name, p in plan.places.items()},
        "polynomials": {
            name: {"coefficients": kept(p.coefficients), "interval": kept([p.low, p.high])}
            for name, p in circuit.polynomials.items()
        },
        "result": plan.output,
        "shape": list(graph.shapes[graph.inputs[0]]),
        "units": {name: float(value).hex() for name, value in units.values.items()},
        "unit": float(units.output).hex(),
    }
    arrays[_PROGRAM] = np.frombuffer(json.dumps(text, allow_nan=False).encode(), dtype=np.uint8)
    return arrays


def _words(values: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Returns the words of floats: 32 bits if these hold all values, else 64 bits."""
    short = values.astype(np.float32)
    if np.array_equal(short, values):
        return np.frombuffer(short.astype("<f4").tobytes(), dtype="<u4").reshape(values.shape)
    return np.frombuffer(values.astype("<f8").tobytes(), dtype="<i8").reshape(values.shape)


def _floats(words: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Returns the floats of words. Raises DamagedFileError for other arrays, infinities and NaN."""
    kinds = {"<u4": "<f4", "<i8": "<f8"}
    if words.dtype.newbyteorder("<").str not in kinds:
        raise damaged("its weights must be words of 32 or 64 bits")
    kind = kinds[words.dtype.newbyteorder("<").str]
    values = np.frombuffer(words.tobytes(), dtype=kind).reshape(words.shape).astype(np.float64)
    if not np.isfinite(values).all():
        raise damaged("its weights must be finite numbers")
    return values


def _written(value: Any, kept: Callable[[Any], dict[str, str]]) -> Any:
    """Returns an attribute for JSON: arrays and floats as arrays, the rest as lists, integers and strings."""
    if isinstance(value, (np.ndarray, np.floating, float)):
        return kept(value)
    if isinstance(value, (list, tuple)):
        return [_written(v, kept) for v in value]
    if isinstance(value, Mapping):
        return {"fields": {str(key): _written(v, kept) for key, v in value.items()}}
    return int(value) if isinstance(value, np.integer) else value


def circuit_of(arrays: Mapping[str, npt.NDArray[Any]], parameters: Any, batch: int, share: int = 1) -> Circuit:
    """Reads a compiled network for requests of `batch` samples, `share` of them in the same ciphertexts.

    Raises DamagedFileError for anything that `arrays_of` does not write."""
    if not isinstance(parameters, ckks.Parameters):
        raise damaged("its parameter set must be one of CKKS")
    fields = _fields(arrays)
    arrays = {name: _floats(words) for name, words in arrays.items() if name != _PROGRAM}
    graph = _graph(fields, arrays)
    try:
        network = network_of(graph)
        design = design_of(network, parameters.slots, batch, share)
    except (ModelError, ValueError, IndexError, KeyError, TypeError) as error:
        raise damaged(f"its graph is invalid: {error}") from None
    polynomials = _polynomials(fields["polynomials"], arrays, network)
    plan = _plan(fields, network, polynomials, parameters, design)
    names = [cut.name for cut in network.cuts]
    values = _object(fields["units"], "units", names)
    scales = {name: _positive(values[name]) for name in names}
    for cut in network.cuts:
        if cut.is_product and not cut.is_contraction:
            product = math.prod(scales[m.source] for m in design.maps[cut.name])
            if not 0.5 < product / scales[cut.name] < _MOST_DOUBLED:
                raise damaged("the unit of a product must be that of its factors, or a power of two below")
    arguments = arguments_of(polynomials)
    arguments |= {cut.name: (0.0, scales[cut.name]) for cut in network.activations if cut.is_linear}
    units = Units(scales, arguments, _positive(fields["unit"]))
    if not isinstance(fields["guard"], bool):
        raise damaged("guard must be true or false")
    return Circuit(network.without_weights(), design, plan, polynomials, units, parameters, fields["guard"])


_NAMES = ("constants", "guard", "inputs", "nodes", "outputs", "plan", "polynomials", "result", "shape", "unit", "units")


def _fields(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns the JSON of a network."""
    array = arrays.get(_PROGRAM)
    if array is None or array.dtype != np.uint8 or array.ndim != 1:
        raise damaged("it must have its description as bytes")
    try:
        text = read_json(array.tobytes().decode())
    except (ValueError, UnicodeDecodeError):
        raise damaged("its description must be JSON") from None
    return _object(text, "its description", _NAMES)


def _object(value: Any, what: str, names: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise damaged(f"{what} must have exactly its fields")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not len(value) <= _LONGEST_NAME:
        raise damaged(f"a name must be a string of at most {_LONGEST_NAME} characters")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_NODES:
        raise damaged("names must be a list")
    return tuple(_name(one) for one in value)


def _positive(value: Any) -> float:
    try:
        number = float.fromhex(value) if isinstance(value, str) and len(value) <= 32 else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise damaged("a unit must be a finite number above 0 in hexadecimal notation")
    return number


def _array(value: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if not isinstance(value, dict) or set(value) != {"array"} or value["array"] not in arrays:
        raise damaged("a reference to an array must name one of its arrays")
    return arrays[value["array"]]


def _read(value: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Reads an attribute of a node."""
    if isinstance(value, list):
        return tuple(_read(one, arrays) for one in value)
    if isinstance(value, dict):
        if set(value) == {"fields"} and isinstance(value["fields"], dict):
            return {_name(key): _number(_read(one, arrays)) for key, one in value["fields"].items()}
        return _array(value, arrays)
    if value is None or isinstance(value, (bool, str)):
        return value
    if type(value) is int and abs(value) <= _MOST_SIZE:
        return value
    raise damaged("an attribute must be an array, an integer, a truth value, a string, or a list of these")


def _number(value: Any) -> Any:
    """Returns an array of one number, as which files hold a number, as a float."""
    return float(value.ravel()[0]) if isinstance(value, np.ndarray) and value.size == 1 else value


def _graph(fields: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Graph:
    """Reads the graph; the shapes of values are computed."""
    inputs, outputs = _names(fields["inputs"]), _names(fields["outputs"])
    shape = _read(fields["shape"], arrays)
    if len(inputs) != 1 or len(outputs) != 1 or not isinstance(shape, tuple):
        raise damaged("it must have one input of a shape, and one output")
    if not all(type(n) is int and n >= 1 for n in shape) or math.prod(shape) > _MOST_SIZE:
        raise damaged("the shape of its input must have axes of at least 1")
    if not isinstance(fields["constants"], dict) or not isinstance(fields["nodes"], list):
        raise damaged("its constants must be an object, and its nodes a list")
    constants = {_name(name): _array(value, arrays) for name, value in fields["constants"].items()}
    found: dict[str, tuple[int, ...]] = {inputs[0]: shape, **{name: a.shape for name, a in constants.items()}}
    nodes = []
    for one in fields["nodes"][:_MOST_NODES]:
        node = _node(one, arrays)
        if node.output in found or not set(node.inputs) <= set(found):
            raise damaged("each node must read earlier values and make a new one")
        try:
            found[node.output] = shapes.CANONICAL[node.operation]([found[name] for name in node.inputs], node.attributes)
        except (ModelError, ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
            raise damaged(f"node {node.output} is invalid: {error}") from None
        if math.prod(found[node.output]) > _MOST_SIZE:
            raise damaged("a value must have at most 2^26 numbers")
        nodes.append(node)
    if outputs[0] not in found:
        raise damaged("its output must be one of its values")
    return Graph(inputs, outputs, tuple(nodes), found, constants)


def _node(value: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Node:
    fields = _object(value, "a node", ("attributes", "inputs", "operation", "output", "source"))
    operation = fields["operation"]
    if operation not in OPERATIONS or not isinstance(fields["attributes"], dict):
        raise damaged(f"the operation of a node must be one of {', '.join(OPERATIONS)}")
    attributes = {_name(key): _read(one, arrays) for key, one in fields["attributes"].items()}
    if "largest" in attributes:
        attributes["largest"] = _number(attributes["largest"])
    if operation == "activation" and attributes.get("function") not in FUNCTIONS:
        raise damaged("the function of an activation must be a known one")
    return Node(operation, _names(fields["inputs"]), _name(fields["output"]), attributes, _name(fields["source"]))


def _polynomials(value: Any, arrays: Mapping[str, npt.NDArray[Any]], network: Network) -> dict[str, Polynomial]:
    linear = {cut.name: cut.is_linear for cut in network.activations}
    names = list(linear)
    made = {}
    for name, one in _object(value, "polynomials", names).items():
        fields = _object(one, "a polynomial", ("coefficients", "interval"))
        coefficients, interval = _array(fields["coefficients"], arrays), _array(fields["interval"], arrays)
        if coefficients.ndim != 1 or not 2 <= coefficients.size <= _MOST_DEGREE or interval.shape != (2,):
            raise damaged("a polynomial must have a list of coefficients and an interval")
        low, high = (float(v) for v in interval)
        if not low < high:
            raise damaged("the interval of a polynomial must have a length")
        made[name] = Polynomial(low, high, tuple(float(c) for c in coefficients), math.nan, math.nan)
        if made[name].is_identity != linear[name]:
            raise damaged("a value without an activation must have the polynomial x, and no activation may have it")
    return made


def _plan(
    fields: dict[str, Any], network: Network, polynomials: Mapping[str, Polynomial], parameters: Any, design: Design
) -> Plan:
    """Reads levels and bootstraps, and checks that each step has its levels."""
    names = [cut.name for cut in network.cuts]
    places: dict[str, Place] = {}
    boots = 0
    for name, value in _object(fields["plan"], "plan", names).items():
        if not isinstance(value, list) or [type(v) for v in value] != [int, int, bool, bool, int, bool]:
            raise damaged("the levels of a cut must be integers, and its decisions truth values")
        place = Place(*value)
        levels = (place.value, place.argument, place.form)
        if not all(1 <= level <= parameters.levels for level in levels):
            raise damaged(f"levels must be 1 to {parameters.levels}, those of its parameter set")
        if (place.before or place.after) and not parameters.bootstrapping_level:
            raise damaged("its parameter set must have bootstrapping")
        if name in polynomials and polynomials[name].is_identity and (place.after or (place.before and place.form < 2)):
            raise damaged("a value without an activation must have a level for its guard before a bootstrap")
        if name not in polynomials and place.before:
            raise damaged("a product and the input have no argument to bootstrap")
        if place.filled and (place.form + 2 > parameters.levels or not any(m.filled for m in design.maps.get(name, ()))):
            raise damaged("a cut with filled copies must have two more levels and a map for them")
        boots += (place.before + place.after) * design.layouts[name].ciphertexts * design.groups
        if name in polynomials and place.argument - polynomials[name].depth < 1:
            raise damaged("an activation must have the levels of its polynomial")
        places[name] = place
    result = fields["result"]
    if type(result) is not int or not 1 <= result <= parameters.levels:
        raise damaged("the level of its result must be a level of its parameter set")
    return Plan({name: places[name] for name in names}, result, boots, 0.0)
