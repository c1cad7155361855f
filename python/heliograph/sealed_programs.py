"""Sealed programs: a recorded function as a model, for clients that encrypt what it takes (`heliograph.sealed`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import complexes, described, printable
from heliograph._html import Rows
from heliograph._schemes import SCHEMES
from heliograph._sealing import SEALERS
from heliograph._shapes import Tensor
from heliograph.key_needs import TURNS, recorded_needs
from heliograph.keys import SecretKey, Server
from heliograph.recording import Program
from heliograph.sealed import Form, SealedModel, Side, Watch, count_in, fields_of, form, list_in, sent_bytes, text_in, write

Arrays = dict[str, npt.NDArray[Any]]
_MOST, _MOST_AXES, _LONGEST = 1 << 12, 16, 1 << 24
_PROGRAM = "program"  #: the array that has its file
#: What an operand or a result says of itself. `level` and `bound` are CKKS's, a bound as text; `type` TFHE's.
_SAID = ("bound", "complex", "level", "name", "packing", "scheme", "shape", "type", "width")


def _damaged(what: str) -> _core.DamagedFileError:
    return _core.DamagedFileError(f"a sealed program {what}")


def _said(core: Any, scheme: str, name: str) -> dict[str, Any]:
    """What is said of an engine's tensor."""
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


def _checked(said: Any) -> dict[str, Any]:
    """The same from a file. Raises DamagedFileError."""
    fields = fields_of(said, *_SAID)
    for length in list_in(fields["shape"], "a shape", _MOST_AXES):
        count_in(length, "length", 1, _LONGEST)
    count_in(fields["width"], "width", 0, _LONGEST), count_in(fields["level"], "level", 0, 1 << 10)
    text_in(fields["name"], "name"), text_in(fields["type"], "type")
    bound, known = text_in(fields["bound"], "bound"), ("slots", "coefficients", "elements")
    if fields["scheme"] not in [*SCHEMES] or fields["packing"] not in known or type(fields["complex"]) is not bool:
        raise _damaged("takes or gives what no scheme has")
    try:
        valid = bound == "" or (0 < float.fromhex(bound) < math.inf and float.fromhex(bound).hex() == bound)
    except (ValueError, OverflowError):
        valid = False
    if not valid or math.prod(fields["shape"]) * max(fields["width"], 1) > 1 << 34:
        raise _damaged("takes or gives what cannot be")
    return fields


def _side(said: dict[str, Any], count: int) -> Side:
    """The same for its users."""
    shape = (*said["shape"], *([said["width"]] if said["width"] else []))
    bound = float.fromhex(said["bound"]) if said["bound"] else None
    dtype = said["type"] or {"exact": "int64"}.get(said["scheme"], "complex128" if said["complex"] else "float64")
    text = "along the last axis, in each ciphertext" if said["width"] else "an element each"
    more = "" if count == 1 else f", one of {count}"
    return Side(
        said["name"],
        shape,
        dtype,
        None if bound is None else -bound,
        bound,
        said["packing"],
        1,
        f"values {text}{more}",
    )


def _encrypted(key: Any, said: dict[str, Any], values: Any) -> Any:
    """One operand. Raises ShapeError besides what encryption raises."""
    side = _side(said, 1)
    if np.shape(values) != side.shape:
        raise _core.ShapeError(f"{side.name} is an array of shape {side.shape}, not of {np.shape(values)}")
    try:
        if said["scheme"] == "tfhe":
            return key.encrypt(values, said["type"])
        if said["scheme"] == "exact":
            return key.encrypt(values, **{said["packing"]: -1}, pad=True)
        given = {} if side.high is None else {"bound": side.high}
        _require_inside(side, complexes(values, "the values to encrypt"))
        return key.encrypt(values, level=said["level"], pad=True, **given)
    except (_core.PlaintextRangeError, _core.DtypeError) as error:
        raise type(error)(f"operand {printable(side.name)}: {error}") from None


def _require_inside(side: Side, values: tuple[npt.NDArray[Any], bool]) -> None:
    """Raises PlaintextRangeError for values beyond the bound that the program was recorded with, DtypeError for complex ones in place
    of real ones.
    """
    array, is_complex = values
    if is_complex and side.dtype != "complex128":
        raise _core.DtypeError("the program was recorded for real numbers, not for complex ones")
    if side.high is not None and (sizes := np.abs(array)).max(initial=0) > side.high:
        place = tuple(int(i) for i in np.unravel_index(int(sizes.argmax()), sizes.shape))
        value = complex(array[place]) if is_complex else float(array[place].real)
        raise _core.PlaintextRangeError(
            f"the value {value:.6g} at {place} is outside [{side.low:.6g}, {side.high:.6g}], the range that the program was recorded for: "
            "scale the values, or record the program for operands encrypted with a larger bound="
        )


@form
class ProgramForm(Form):
    """A recorded program."""

    kind = "program"

    def __init__(self, parameters: Any, said: dict[str, Any], data: bytes | None) -> None:
        self.parameters, self._described, self.complete = parameters, said, data is not None
        self._data = b"" if data is None else data
        self._program = None if data is None else Program.from_bytes(data)
        scheme = said["takes"][0]["scheme"]
        if self._program is not None:
            found = recorded_needs(self._program._last_recording()[0].key_numbers, scheme, getattr(parameters, "n", 0))
            if found != said["needs"]:
                raise _damaged("asks for other keys than its calls use")

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> ProgramForm:
        """Of a file."""
        fields = fields_of(said, "gives", "needs", "takes")
        for name in ("takes", "gives"):
            several = list_in(fields[name], "operands and results", _MOST)
            if not several or len({_checked(one)["name"] for one in several}) != len(several):
                raise _damaged("takes or gives nothing, or two things of one name")
            if any(one["scheme"] != parameters._scheme.key for one in several):
                raise _damaged("takes or gives what is of another scheme than its parameters")
        data = None
        if arrays is not None:
            array = arrays.get(_PROGRAM)
            if set(arrays) != {_PROGRAM} or array is None or array.dtype != np.uint8 or array.ndim != 1:
                raise _damaged("has no program")
            data = array.tobytes()
        cls._require_needs(fields["needs"], parameters)
        return cls(parameters, fields, data)

    @staticmethod
    def _require_needs(needs: Any, parameters: Any) -> None:
        """Raises DamagedFileError for keys that this scheme does not make."""
        key = parameters._scheme.key
        other = TURNS[key][1] if key in TURNS else ""
        known = {"tfhe": set(), "exact": {"relinearize", "rotations", other}}.get(
            key, {"relinearize", "rotations", other, "bootstrap"}
        )
        if not isinstance(needs, dict) or not set(needs) <= known or (known and "relinearize" not in needs):
            raise _damaged("asks for keys that its scheme has not")
        for name, value in needs.items():
            if name != "rotations" and type(value) is not bool:
                raise _damaged("asks for keys that its scheme has not")
        for step in list_in(needs.get("rotations", []), "rotations", _MOST * 8):
            count_in(step, "rotation", 1, 1 << 20)

    @classmethod
    def of(cls, program: Program) -> ProgramForm:
        """Of a program's last recording. Raises RecordingError, ParameterError."""
        program.function  # noqa: B018  of one from a file nobody knows what it took
        data = program.to_bytes()
        core, count = program._last_recording()
        taken = [Tensor(one) for one in core.taken]
        if len({repr(t.parameters) for t in taken}) != 1 or len({t.key_id for t in taken}) != 1:
            raise _core.ParameterError("a program is sealed whose operands are of one parameter set and one key")
        if any(0 in one.shape for one in (*taken, *core.given)):
            raise _core.ParameterError("a program that takes or gives no ciphertexts is not sealed")
        parameters = taken[0].parameters
        key = parameters._scheme.key
        takes = [_said(t._core, key, name) for t, name in zip(taken, program._operand_names(), strict=True)]
        names = ["y"] if count == 1 else [f"y{i}" for i in range(count)]
        gives = [_said(one, key, name) for one, name in zip(core.given, names, strict=True)]
        needs = recorded_needs(core.key_numbers, key, getattr(parameters, "n", 0))
        for said, tensor in zip(takes, taken, strict=True):
            if key == "ckks" and tensor._core.public_bound <= _default_bound(parameters, said):
                said["bound"] = float(tensor._core.public_bound).hex()
        return cls(parameters, {"gives": gives, "needs": needs, "takes": takes}, data)

    def described(self) -> dict[str, Any]:
        """What it takes and gives."""
        return self._described

    def arrays(self) -> Arrays:
        """The program's file."""
        return {_PROGRAM: np.frombuffer(self._data, dtype=np.uint8)}

    @property
    def needs(self) -> dict[str, Any]:
        """Those that its calls use."""
        found: dict[str, Any] = self._described["needs"]
        return found

    @property
    def inputs(self) -> tuple[Side, ...]:
        """Its operands."""
        takes = self._described["takes"]
        return tuple(_side(one, len(takes)) for one in takes)

    @property
    def outputs(self) -> tuple[Side, ...]:
        """Its results."""
        gives = self._described["gives"]
        return tuple(_side(one, len(gives)) for one in gives)

    def rows(self) -> Rows:
        """Its calls."""
        return [] if self._program is None else [("calls", line) for line in self._program._lines()]

    def count(self, x: Any) -> tuple[int, bool]:
        """One request at a time."""
        return 1, False

    def _operands(self, x: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        """What each operand is, and a user's values for it. Raises ShapeError, DtypeError."""
        takes = self._described["takes"]
        if len(takes) == 1 and not isinstance(x, dict):
            return iter([(takes[0], x)])
        names = [one["name"] for one in takes]
        if isinstance(x, dict):
            if set(x) != set(names):
                raise _core.ShapeError(f"this model takes {', '.join(names)}, not {', '.join(map(str, x)) or 'nothing'}")
            return iter([(one, x[one["name"]]) for one in takes])
        if not isinstance(x, (tuple, list)):
            raise _core.DtypeError(f"this model takes {len(takes)} arrays in a tuple or by name, not {described(x)}")
        if len(x) != len(takes):
            raise _core.ShapeError(f"this model takes {len(takes)} arrays, {', '.join(names)}, not {len(x)}")
        return zip(takes, x, strict=True)

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """A tensor for each operand. `unchecked` opens nothing: a server's recording holds for the recorded bounds alone."""
        made = tuple(_encrypted(key, said, values) for said, values in self._operands(x))
        return made[0] if len(made) == 1 else made

    def prepared(self) -> Callable[[tuple[Any, ...], Watch | None], Any]:
        """The program."""
        program = self._program
        if program is None:
            raise _core.InternalError("a client's half has no program")
        _, recorded = program._last()

        def run(tensors: tuple[Any, ...], _: Watch | None) -> Any:
            takes = self._described["takes"]
            if [t.shape for t in tensors] != [tuple(one["shape"]) for one in takes]:
                shapes = " and ".join(str(tuple(one["shape"])) for one in takes)
                found = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request is tensors of shape {shapes}, not {found}")
            operands = _core.Operands([t._core for t in tensors], [t._keys._core for t in tensors])
            made = tuple(Tensor(core, tensors[0]._keys) for core in recorded.core(operands))
            return made[0] if len(made) == 1 else made

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """The results' values, an array or a tuple of several."""
        gives = self._described["gives"]
        tensors = tuple(tensor) if isinstance(tensor, (tuple, list)) else (tensor,)
        if [t.shape for t in tensors] != [tuple(one["shape"]) for one in gives]:
            raise _core.ShapeError("this is no answer of this program: " + " and ".join(str(t.shape) for t in tensors))
        opened = {"unchecked": unchecked} if gives[0]["scheme"] == "ckks" else {}
        values = tuple(secret.decrypt(t, **opened) for t in tensors)
        return values[0] if len(values) == 1 else values

    def figures(self) -> dict[str, int]:
        """By a run, of zeros. Raises ParameterError where the program does not take what a client encrypts."""
        secret = SecretKey.generate(self.parameters)
        keys = secret.evaluation_keys(**self.needs)
        server: Server[Any] = Server(keys)
        zeros = [np.zeros(side.shape, dtype=bool if side.dtype == "bool" else np.int64) for side in self.inputs]
        made = self.encrypt(secret, zeros[0] if len(zeros) == 1 else tuple(zeros))
        request = made if isinstance(made, tuple) else (made,)
        try:
            answer = self.prepared()(tuple(server.bind(t) for t in request), None)
            self.decrypted(secret, answer, True)
        except (_core.MismatchError, _core.WrongKeyError) as error:
            raise _core.ParameterError(
                f"this program does not take what a client encrypts anew, but what was computed before: {error}"
            ) from None
        answers = answer if isinstance(answer, tuple) else (answer,)
        core, _ = self._program._last_recording() if self._program else (None, 0)
        held = int(core.peak_bytes) + int(core.constant_bytes) if core is not None else 0
        return {
            "input_bytes": sum(map(sent_bytes, request)),
            "memory_bytes": held + int(keys.nbytes) + sum(t.nbytes for t in (*request, *answers)),
            "output_bytes": sum(map(sent_bytes, answers)),
        }


def _default_bound(parameters: Any, said: dict[str, Any]) -> float:
    """What encryption says of values whose bound nobody gave."""
    null = type(parameters)(parameters._core.on_device("null"))
    one = SecretKey.generate(null).encrypt(np.zeros(said["width"]), level=said["level"], pad=True)
    return float(one._core.public_bound)


def _seal(program: Program, path: Any, **texts: Any) -> SealedModel:
    return write(ProgramForm.of(program), path, **texts)


SEALERS[ProgramForm.kind] = _seal
