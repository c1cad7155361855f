"""The client's operations as JSON and arrays, and back. Every field is checked before use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml import shapes
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape
from heliograph.ml.networks.files import damaged
from heliograph.ml.networks.preparation import Part, Preparation
from heliograph.ml.partition import CLIENT, Partition

Arrays = dict[str, npt.NDArray[Any]]
PREFIX = "client."  #: first characters of the names of its arrays
_MOST_NODES, _LONGEST_NAME, _MOST_SIZE, _MOST_INPUTS = 1 << 12, 1000, 1 << 26, 64
#: For each type of constants: the type of its words in a file.
_WORDS = {"float32": "<u4", "float64": "<i8", "int64": "<i8", "int32": "<i4", "bool": "|u1", "uint8": "|u1"}
_TYPES = frozenset((*_WORDS, "int8", "int16", "uint16", "uint32", "float16"))


def fields_of_preparation(preparation: Preparation) -> tuple[dict[str, Any], Arrays]:
    """Returns the JSON of a preparation, and its constants as arrays of words."""
    arrays: Arrays = {}

    def kept(array: Array) -> dict[str, str]:
        name, array = f"{PREFIX}{len(arrays)}", np.asarray(array)
        if array.dtype.name not in _WORDS:
            array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        words = np.ascontiguousarray(array).reshape(array.shape)
        arrays[name] = np.frombuffer(words.tobytes(), dtype=_WORDS[array.dtype.name]).reshape(array.shape)
        return {"array": name, "dtype": array.dtype.name}

    client = preparation.partition.client
    parts = [
        {
            "equal_rows": p.has_equal_rows,
            "mask": p.is_mask,
            "name": p.name,
            "scale": float(p.scale).hex(),
            "shape": list(p.shape),
        }
        for p in preparation.parts
    ]
    if client is None:
        return {"constants": {}, "inputs": [], "nodes": [], "parts": parts}, arrays
    return {
        "constants": {name: kept(array) for name, array in client.constants.items()},
        "inputs": [
            {"dtype": client.dtypes.get(name, "float32"), "name": name, "shape": list(client.shapes[name])}
            for name in client.inputs
        ],
        "nodes": [
            {
                "attributes": {key: _written(value) for key, value in node.attributes.items()},
                "inputs": list(node.inputs),
                "operation": node.operation,
                "output": node.output,
                "source": node.source[:_LONGEST_NAME],
            }
            for node in client.nodes
        ],
        "parts": parts,
    }, arrays


def _written(value: Any) -> Any:
    """Returns an attribute for JSON: integers, truth values, strings, lists; floats as hexadecimal text in an object."""
    if isinstance(value, (list, tuple)):
        return [_written(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return {"float": float(value).hex()}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    raise ModelError(f"cannot write an attribute of {type(value).__name__} to a bundle")


def preparation_of(fields: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Preparation:
    """Reads a preparation. Raises DamagedFileError for anything that `fields_of_preparation` does not write."""
    fields = _object(fields, ("constants", "inputs", "nodes", "parts"))
    parts = tuple(_part(one) for one in _list(fields["parts"], _MOST_INPUTS))
    if not parts or len({part.name for part in parts}) != len(parts):
        raise damaged("the client must make at least one value, each once")
    names = tuple(part.name for part in parts)
    sizes: dict[str, Shape] = {part.name: (1, *part.shape) for part in parts}
    encrypted = Graph(names, (), (), sizes)
    if not fields["inputs"]:
        if fields["nodes"] or fields["constants"] or any(part.is_mask for part in parts):
            raise damaged("a client without inputs must have no operations")
        return Preparation(Partition(None, encrypted), parts)
    client = _client(fields, arrays, names)
    for part in parts:
        shape = tuple(client.shapes[part.name])
        if (shape[1:] if shape[:1] == (1,) else shape) != part.shape:
            raise damaged(f"the shape of the client's value {part.name[:100]} must be that of its operations")
    return Preparation(Partition(client, encrypted), parts)


def _client(fields: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]], outputs: tuple[str, ...]) -> Graph:
    """Reads the graph. The shapes of all values are computed, and must have at most 2^26 numbers."""
    found: dict[str, Shape] = {}
    dtypes: dict[str, str] = {}
    inputs = []
    for one in _list(fields["inputs"], _MOST_INPUTS):
        entry = _object(one, ("dtype", "name", "shape"))
        name, shape = _name(entry["name"]), _shape(entry["shape"])
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _TYPES or name in found or shape[:1] != (1,):
            raise damaged("an input of the client must have a new name, a known type, and a batch axis of 1")
        inputs.append(name)
        found[name] = shape
        if entry["dtype"] != "float32":
            dtypes[name] = entry["dtype"]
    if not isinstance(fields["constants"], dict) or len(fields["constants"]) > _MOST_NODES:
        raise damaged("constants of the client must be an object")
    constants = {_name(name): _constant(one, arrays) for name, one in fields["constants"].items()}
    if set(constants) & set(found):
        raise damaged("constants of the client must have names of their own")
    found |= {name: array.shape for name, array in constants.items()}
    nodes = []
    for one in _list(fields["nodes"], _MOST_NODES):
        node = _node(one)
        if node.output in found or not set(node.inputs) <= set(found):
            raise damaged("each operation of the client must read earlier values and make a new one")
        try:
            shape = tuple(int(n) for n in shapes.RAW[node.operation]([found[name] for name in node.inputs], node.attributes))
        except (ModelError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise damaged(f"the client's operation {node.output[:100]} is invalid: {str(error)[:200]}") from None
        if math.prod(shape) > _MOST_SIZE:
            raise damaged("a value of the client must have at most 2^26 numbers")
        found[node.output] = shape
        nodes.append(node)
    if not set(outputs) <= set(found) - set(constants):
        raise damaged("the client must compute each of its values")
    return Graph(tuple(inputs), outputs, tuple(nodes), found, constants, "", dtypes)


def _node(value: Any) -> Node:
    fields = _object(value, ("attributes", "inputs", "operation", "output", "source"))
    operation = fields["operation"]
    if not isinstance(operation, str) or operation not in CLIENT or not isinstance(fields["attributes"], dict):
        raise damaged("an operation of the client must be a known one")
    attributes = {_name(key): _read(one) for key, one in fields["attributes"].items()}
    inputs = tuple(_name(name) for name in _list(fields["inputs"], _MOST_INPUTS))
    return Node(operation, inputs, _name(fields["output"]), attributes, _name(fields["source"]))


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(one) for one in value)
    if isinstance(value, dict):
        return _real(_object(value, ("float",))["float"])
    if value is None or isinstance(value, bool):
        return value
    if (isinstance(value, str) and len(value) <= _LONGEST_NAME) or (type(value) is int and abs(value) <= 1 << 62):
        return value
    raise damaged("an attribute of the client must be a number, a truth value, a string, or a list of these")


def _part(value: Any) -> Part:
    fields = _object(value, ("equal_rows", "mask", "name", "scale", "shape"))
    scale = _real(fields["scale"])
    if not 0 < scale < math.inf or not isinstance(fields["mask"], bool) or (fields["mask"] and scale != 1):
        raise damaged("a value of the client must have a scale above 0; that of a mask is 1")
    shape, rows = _shape(fields["shape"]), fields["equal_rows"]
    if not isinstance(rows, bool) or (rows and (not fields["mask"] or len(shape) < 2)):
        raise damaged("only a mask of several rows may have equal rows")
    return Part(_name(fields["name"]), shape, scale, fields["mask"], rows)


def _constant(value: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Array:
    fields = _object(value, ("array", "dtype"))
    words = arrays.get(fields["array"]) if isinstance(fields["array"], str) else None
    kind = _WORDS.get(fields["dtype"]) if isinstance(fields["dtype"], str) else None
    if words is None or kind is None or words.dtype.newbyteorder("<") != np.dtype(kind):
        raise damaged("a constant of the client must name one of its arrays, of a known type")
    if fields["dtype"] == "bool" and np.any(words > 1):
        raise damaged("truth values of the client must be 0 or 1")
    array = np.frombuffer(np.ascontiguousarray(words).tobytes(), dtype=fields["dtype"]).reshape(words.shape)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise damaged("constants of the client must be numbers")
    return array


def _object(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise damaged(f"an object of the client must have exactly the fields {', '.join(names)}")
    return value


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise damaged(f"a list of the client must have at most {most:,} entries")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise damaged(f"a name of the client must be a string of at most {_LONGEST_NAME} characters")
    return value


def _shape(value: Any) -> Shape:
    sizes = _list(value, 16)
    if not all(type(n) is int and 1 <= n <= _MOST_SIZE for n in sizes) or math.prod(sizes) > _MOST_SIZE:
        raise damaged("a shape of the client must have axes of at least 1, and at most 2^26 numbers")
    return tuple(sizes)


def _real(value: Any) -> float:
    try:
        return float.fromhex(value) if isinstance(value, str) and len(value) <= 32 else math.nan
    except (ValueError, OverflowError):
        raise damaged("a number of the client must be in hexadecimal notation") from None
