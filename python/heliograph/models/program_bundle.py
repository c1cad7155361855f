"""Program bundles: recorded functions as models (`heliograph.models.bundle`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import complexes, described, printable
from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.key_needs import TURNS, recorded_needs
from heliograph._common.operations import composite
from heliograph._common.schemes import SCHEMES
from heliograph._common.tensor import StageProgress, Tensor
from heliograph.keys import SecretKey, Server
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, sent_bytes, write
from heliograph.models.header import count_in, fields_of, list_in, text_in
from heliograph.programs.program import Program

Arrays = dict[str, npt.NDArray[Any]]
_MOST, _MOST_AXES, _LONGEST = 1 << 12, 16, 1 << 24
_PROGRAM = "program"  #: name of the array with the program's file
#: Fields of an operand or a result. `level` and `bound` (a string) are for CKKS, `type` is for TFHE.
_TENSOR_FIELDS = ("bound", "complex", "level", "name", "packing", "scheme", "shape", "type", "width")


def _damaged(what: str) -> _core.DamagedFileError:
    return _core.DamagedFileError(f"damaged program bundle: {what}")


def _tensor_fields(core: Any, scheme: str, name: str) -> dict[str, Any]:
    """Returns the fields of an operand or result, from an engine's tensor."""
    ckks, exact, tfhe = (scheme == key for key in ("ckks", "exact", "tfhe"))
    return {
        "bound": "",
        "complex": bool(core.complex) if ckks else False,
        "level": int(core.level) if ckks else 0,
        "name": name,
        "packing": str(core.packing) if exact else "slots" if ckks else "elements",
        "scheme": scheme,
        "shape": [int(n) for n in core.shape],
        "type": str(core.type) if tfhe else "",
        "width": 0 if tfhe else int(core.slots),
    }


def _checked(description: Any) -> dict[str, Any]:
    """Checks the fields of an operand or result of a file. Raises DamagedFileError."""
    fields = fields_of(description, *_TENSOR_FIELDS)
    for length in list_in(fields["shape"], "a shape", _MOST_AXES):
        count_in(length, "length", 1, _LONGEST)
    count_in(fields["width"], "width", 0, _LONGEST), count_in(fields["level"], "level", 0, 1 << 10)
    text_in(fields["name"], "name"), text_in(fields["type"], "type")
    bound, packings = text_in(fields["bound"], "bound"), ("slots", "coefficients", "elements")
    if fields["scheme"] not in [*SCHEMES] or fields["packing"] not in packings or type(fields["complex"]) is not bool:
        raise _damaged("an operand or result must have a known scheme and packing, and complex must be true or false")
    try:
        valid = bound == "" or (0 < float.fromhex(bound) < math.inf and float.fromhex(bound).hex() == bound)
    except (ValueError, OverflowError):
        valid = False
    if not valid or math.prod(fields["shape"]) * max(fields["width"], 1) > 1 << 34:
        raise _damaged("an operand or result must have at most 2^34 values, and a finite bound above 0, or none")
    return fields


def _tensor_spec(fields: dict[str, Any], count: int) -> TensorSpec:
    """Returns the `TensorSpec` of an operand or result. `count` is the number of operands or results."""
    shape = (*fields["shape"], *([fields["width"]] if fields["width"] else []))
    bound = float.fromhex(fields["bound"]) if fields["bound"] else None
    dtype = fields["type"] or {"exact": "int64"}.get(fields["scheme"], "complex128" if fields["complex"] else "float64")
    text = "in each ciphertext, along the last axis" if fields["width"] else "in elements"
    more = "" if count == 1 else f", one of {count}"
    return TensorSpec(
        fields["name"], shape, dtype, None if bound is None else -bound, bound, fields["packing"], 1, f"values {text}{more}"
    )


def _encrypted(key: Any, fields: dict[str, Any], values: Any) -> Any:
    """Encrypts one operand. Raises ShapeError, and the errors of encryption."""
    spec = _tensor_spec(fields, 1)
    if np.shape(values) != spec.shape:
        raise _core.ShapeError(f"{spec.name} must be an array of shape {spec.shape}, not {np.shape(values)}")
    try:
        if fields["scheme"] == "tfhe":
            return key.encrypt(values, fields["type"])
        if fields["scheme"] == "exact":
            return key.encrypt(values, **{fields["packing"]: -1}, pad=True)
        options = {} if spec.high is None else {"bound": spec.high}
        _require_inside(spec, complexes(values, "the values to encrypt"))
        return key.encrypt(values, level=fields["level"], pad=True, **options)
    except (_core.PlaintextRangeError, _core.DtypeError) as error:
        raise type(error)(f"operand {printable(spec.name)}: {error}") from None


def _require_inside(spec: TensorSpec, values: tuple[npt.NDArray[Any], bool]) -> None:
    """Raises PlaintextRangeError for values beyond the recorded bound, DtypeError for complex values of a real operand."""
    array, is_complex = values
    if is_complex and spec.dtype != "complex128":
        raise _core.DtypeError("the program was recorded for real numbers, not for complex ones")
    if spec.high is not None and (sizes := np.abs(array)).max(initial=0) > spec.high:
        place = tuple(int(i) for i in np.unravel_index(int(sizes.argmax()), sizes.shape))
        value = complex(array[place]) if is_complex else float(array[place].real)
        raise _core.PlaintextRangeError(
            f"the value {value:.6g} at {place} is outside [{spec.low:.6g}, {spec.high:.6g}], the range that the program was "
            "recorded for: scale the values, or record the program for operands encrypted with a larger bound="
        )


@form
class ProgramForm(Form):
    """A recorded program."""

    kind = "program"

    def __init__(self, parameters: Any, description: dict[str, Any], data: bytes | None) -> None:
        self.parameters, self._described, self.complete = parameters, description, data is not None
        self._data = b"" if data is None else data
        self._program = None if data is None else Program.from_bytes(data)
        scheme = description["takes"][0]["scheme"]
        if self._program is not None:
            needs = recorded_needs(self._program._last_recording()[0].key_numbers, scheme, getattr(parameters, "n", 0))
            if needs != description["needs"]:
                raise _damaged("the field needs must list the keys that its calls use")

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> ProgramForm:
        """Creates the model from a file's fields and arrays."""
        fields = fields_of(description, "gives", "needs", "takes")
        for name in ("takes", "gives"):
            several = list_in(fields[name], "operands and results", _MOST)
            if not several or len({_checked(one)["name"] for one in several}) != len(several):
                raise _damaged(f"the field {name} must have at least one entry, and no two of one name")
            if any(one["scheme"] != parameters._scheme.key for one in several):
                raise _damaged(f"the entries of the field {name} must be of the parameters' scheme")
        data = None
        if arrays is not None:
            array = arrays.get(_PROGRAM)
            if set(arrays) != {_PROGRAM} or array is None or array.dtype != np.uint8 or array.ndim != 1:
                raise _damaged("it must have exactly one array, the program's file")
            data = array.tobytes()
        cls._require_needs(fields["needs"], parameters)
        if levels := fields["needs"].get("level_rotations"):  # JSON has texts as keys
            needs = fields["needs"] | {"level_rotations": {int(level): steps for level, steps in levels.items()}}
            fields = fields | {"needs": needs}
        return cls(parameters, fields, data)

    @staticmethod
    def _require_needs(needs: Any, parameters: Any) -> None:
        """Raises DamagedFileError for keys that the scheme does not have."""
        key = parameters._scheme.key
        other = TURNS[key][1] if key in TURNS else ""
        allowed = {"tfhe": set(), "exact": {"relinearize", "rotations", other}}.get(
            key, {"relinearize", "rotations", "level_rotations", other, "bootstrap"}
        )
        if not isinstance(needs, dict) or not set(needs) <= allowed or (allowed and "relinearize" not in needs):
            raise _damaged(f"the field needs must list keys of its scheme: {', '.join(sorted(allowed)) or 'none'}")
        for name, value in needs.items():
            if name not in ("rotations", "level_rotations") and type(value) is not bool:
                raise _damaged(f"the field {name} of needs must be true or false")
        levels = needs.get("level_rotations", {})
        known = {str(level) for level in range(1, getattr(parameters, "levels", 0) + 1)}
        if not isinstance(levels, dict) or not set(levels) <= known:
            raise _damaged("the field level_rotations of needs must list steps by levels of the parameters")
        for steps in (needs.get("rotations", []), *levels.values()):
            for step in list_in(steps, "rotations", _MOST * 8):
                count_in(step, "rotation", 1, 1 << 20)

    @classmethod
    def of(cls, program: Program) -> ProgramForm:
        """Describes a program's last recording for a file. Raises RecordingError, ParameterError."""
        program.function  # noqa: B018  raises for a program from a file, which lacks its operands' bounds
        data = program.to_bytes()
        core, count = program._last_recording()
        operands = [Tensor(one) for one in core.operands]
        if len({repr(t.parameters) for t in operands}) != 1 or len({t.key_id for t in operands}) != 1:
            sets = " and ".join(sorted({f"{t.parameters!r} (key {t.key_id[:8]})" for t in operands}))
            raise _core.ParameterError(
                f"cannot export this program: all operands must use the same parameter set and the same key, not {sets}"
            )
        if any(0 in one.shape for one in (*operands, *core.results)):
            raise _core.ParameterError(
                "cannot export this program: each operand and each result must have at least one ciphertext"
            )
        parameters = operands[0].parameters
        key = parameters._scheme.key
        takes = [_tensor_fields(t._core, key, name) for t, name in zip(operands, program._operand_names(), strict=True)]
        names = ["y"] if count == 1 else [f"y{i}" for i in range(count)]
        gives = [_tensor_fields(one, key, name) for one, name in zip(core.results, names, strict=True)]
        needs = recorded_needs(core.key_numbers, key, getattr(parameters, "n", 0))
        for fields, tensor in zip(takes, operands, strict=True):
            if key == "ckks" and tensor._core.public_bound <= _default_bound(parameters, fields):
                fields["bound"] = float(tensor._core.public_bound).hex()
        return cls(parameters, {"gives": gives, "needs": needs, "takes": takes}, data)

    def described(self) -> dict[str, Any]:
        """Returns the fields of operands, results and keys."""
        return self._described

    def arrays(self) -> Arrays:
        """Returns the program's file as an array."""
        return {_PROGRAM: np.frombuffer(self._data, dtype=np.uint8)}

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys that its calls use."""
        needs: dict[str, Any] = self._described["needs"]
        return needs

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The operands."""
        takes = self._described["takes"]
        return tuple(_tensor_spec(one, len(takes)) for one in takes)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The results."""
        gives = self._described["gives"]
        return tuple(_tensor_spec(one, len(gives)) for one in gives)

    def rows(self) -> Rows:
        """Describes the calls."""
        return [] if self._program is None else [("calls", line) for line in self._program._lines()]

    def count(self, x: Any) -> tuple[int, bool]:
        """Returns one item: a program takes one request at a time."""
        return 1, False

    def _operands(self, x: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        """Pairs the fields of each operand with the user's values. Raises ShapeError, DtypeError."""
        takes = self._described["takes"]
        if len(takes) == 1 and not isinstance(x, dict):
            return iter([(takes[0], x)])
        names = [one["name"] for one in takes]
        if isinstance(x, dict):
            if set(x) != set(names):
                raise _core.ShapeError(f"this model takes {', '.join(names)}, not {', '.join(map(str, x)) or 'nothing'}")
            return iter([(one, x[one["name"]]) for one in takes])
        if not isinstance(x, (tuple, list)):
            raise _core.DtypeError(f"this model takes {len(takes)} arrays in a tuple or a dict, not {described(x)}")
        if len(x) != len(takes):
            raise _core.ShapeError(f"this model takes {len(takes)} arrays, {', '.join(names)}, not {len(x)}")
        return zip(takes, x, strict=True)

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """Encrypts a tensor for each operand. `unchecked` is ignored: the recording holds for the recorded bounds only."""
        tensors = tuple(_encrypted(key, fields, values) for fields, values in self._operands(x))
        return tensors[0] if len(tensors) == 1 else tensors

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        """Returns the function of a request, which runs the program."""
        program = self._program
        if program is None:
            raise _core.InternalError("a client's half has no program")
        _, recorded = program._last()

        @composite
        def run(tensors: tuple[Any, ...], _: StageProgress | None) -> Any:
            takes = self._described["takes"]
            if [t.shape for t in tensors] != [tuple(one["shape"]) for one in takes]:
                shapes = " and ".join(str(tuple(one["shape"])) for one in takes)
                shape_text = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request must be tensors of shape {shapes}, not {shape_text}")
            operands = _core.program.Operands([t._core for t in tensors], [t._keys._core for t in tensors])
            results = tuple(Tensor(core, tensors[0]._keys) for core in recorded.core(operands))
            return results[0] if len(results) == 1 else results

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """Returns the results' values, an array or a tuple of several."""
        gives = self._described["gives"]
        tensors = tuple(tensor) if isinstance(tensor, (tuple, list)) else (tensor,)
        if [t.shape for t in tensors] != [tuple(one["shape"]) for one in gives]:
            shapes = " and ".join(str(tuple(one["shape"])) for one in gives)
            shape_text = " and ".join(str(t.shape) for t in tensors) or "nothing"
            raise _core.ShapeError(f"an answer must be tensors of shape {shapes}, not {shape_text}")
        opened = {"unchecked": unchecked} if gives[0]["scheme"] == "ckks" else {}
        values = tuple(secret.decrypt(t, **opened) for t in tensors)
        return values[0] if len(values) == 1 else values

    def byte_counts(self) -> dict[str, int]:
        """Measures bytes by a run on zeros.

        Raises ParameterError if the program does not take freshly encrypted operands.
        """
        secret = SecretKey.generate(self.parameters)
        keys = secret.evaluation_keys(**self.needs)
        server: Server[Any] = Server(keys)
        zeros = [np.zeros(spec.shape, dtype=bool if spec.dtype == "bool" else np.int64) for spec in self.inputs]
        encrypted = self.encrypt(secret, zeros[0] if len(zeros) == 1 else tuple(zeros))
        request = encrypted if isinstance(encrypted, tuple) else (encrypted,)
        try:
            answer = self.prepared()(tuple(server.bind(t) for t in request), None)
            self.decrypted(secret, answer, True)
        except (_core.MismatchError, _core.WrongKeyError) as error:
            raise _core.ParameterError(
                "cannot export this program: it must take freshly encrypted operands, not results of other computations: "
                f"{error}"
            ) from None
        answers = answer if isinstance(answer, tuple) else (answer,)
        core, _ = self._program._last_recording() if self._program else (None, 0)
        program_bytes = int(core.peak_bytes) + int(core.constant_bytes) if core is not None else 0
        return {
            "input_bytes": sum(map(sent_bytes, request)),
            "memory_bytes": program_bytes + int(keys.nbytes) + sum(t.nbytes for t in (*request, *answers)),
            "output_bytes": sum(map(sent_bytes, answers)),
        }


def _default_bound(parameters: Any, fields: dict[str, Any]) -> float:
    """Returns the bound that encryption assigns to values without a given bound."""
    null = type(parameters)(parameters._core.on_device("null"))
    one = SecretKey.generate(null).encrypt(np.zeros(fields["width"]), level=fields["level"], pad=True)
    return float(one._core.public_bound)


def _export(program: Program, path: Any, **texts: Any) -> ModelBundle:
    return write(ProgramForm.of(program), path, **texts)


EXPORTERS[ProgramForm.kind] = _export
