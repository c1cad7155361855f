"""Recorded programs: a function of ciphertext tensors, recorded once, replayed without its Python."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from heliograph import _core, ckks, tfhe
from heliograph._arrays import is_whole, readable_bytes
from heliograph.tensor import Tensor

_TENSORS = (Tensor, tfhe.Tensor, ckks.Tensor)


def _flat(value: Any, what: str) -> tuple[list[Any], Any]:
    """The tensors in nested lists, tuples and dicts, and a description of the nest that `_nested` takes."""
    if isinstance(value, _TENSORS):
        return [value], type(value)
    if isinstance(value, (list, tuple)) and (not isinstance(value, tuple) or type(value) is tuple):
        parts = [_flat(v, what) for v in value]
        return [t for tensors, _ in parts for t in tensors], (type(value), tuple(nest for _, nest in parts))
    if isinstance(value, dict):
        names = sorted(value, key=repr)
        parts = [_flat(value[name], what) for name in names]
        return [t for tensors, _ in parts for t in tensors], (dict, tuple(names), tuple(nest for _, nest in parts))
    raise _core.DtypeError(
        f"{what} of a program are ciphertext tensors, or lists, tuples and dicts of them, not {type(value).__name__}; "
        "what else the function needs it takes from where it is defined"
    )


def _nested(tensors: Iterator[Any], nest: Any) -> Any:
    if isinstance(nest, type):
        return next(tensors)
    if nest[0] is dict:
        return {name: _nested(tensors, part) for name, part in zip(nest[1], nest[2], strict=True)}
    return nest[0](_nested(tensors, part) for part in nest[1])


@dataclass(frozen=True)
class _Recorded:
    """One recording: the engine's program, and how its results are handed out."""

    core: Any
    nest: Any
    kinds: list[type]  # of the results
    keys: list[Any]  # of each result: the number of the operand whose keys it has, or the keys themselves, or None


class Program:
    """A recorded function. Made by `hg.program`; called as the function is, with the same results to the last bit.

    It is recorded once for each signature of its operands: their shapes, levels, scales, noise and what else the function may
    have looked at. A call with another signature records again, at the cost of a plain call; `limit` recordings are kept, the
    least recently used one goes.
    """

    def __init__(self, function: Callable[..., Any], *, limit: int = 16) -> None:
        if not callable(function):
            raise _core.DtypeError(f"a program is recorded from a function, not {type(function).__name__}")
        if not is_whole(limit):
            raise _core.DtypeError("a limit is a number of recordings")
        if limit < 1:
            raise _core.ParameterError("a program keeps at least one recording")
        self._function = function
        self._limit = int(limit)
        self._recorded: OrderedDict[Any, _Recorded] = OrderedDict()
        self._dropped = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results.

        Raises what the function raises for these operands, and RecordingError where it does what cannot be recorded: looks at a
        value (decrypts, saves), draws random numbers (encrypts) or returns anything but tensors.
        """
        tensors, nest = _flat((args, kwargs), "operands")
        if not tensors:
            raise _core.DtypeError("a program is called with at least one ciphertext tensor")
        operands = _core.Operands([t._core for t in tensors], [None if t._keys is None else t._keys._core for t in tensors])
        key = (nest, operands.signature)
        with self._lock:
            recorded = self._recorded.get(key)
            if recorded is not None:
                self._recorded.move_to_end(key)
        if recorded is None:
            return self._record(key, operands, tensors, args, kwargs)
        results = recorded.core(operands)
        made = [
            kind(core, tensors[owner]._keys if isinstance(owner, int) else owner)
            for kind, core, owner in zip(recorded.kinds, results, recorded.keys, strict=True)
        ]
        return _nested(iter(made), recorded.nest)

    def _record(self, key: Any, operands: Any, tensors: list[Any], args: Any, kwargs: Any) -> Any:
        """Calls the function, keeps what it did and returns its results."""
        recording = _core.Recording(operands)
        try:
            value = self._function(*args, **kwargs)
            try:
                results, nest = _flat(value, "results")
            except _core.DtypeError as error:
                raise _core.RecordingError(str(error)) from None
            core = recording.finish([t._core for t in results])
        finally:
            recording.stop()
        owners = [t._keys for t in tensors]
        found = [next((i for i, k in enumerate(owners) if k is not None and k is t._keys), t._keys) for t in results]
        recorded = _Recorded(core, nest, [type(t) for t in results], found)
        with self._lock:
            self._recorded[key] = recorded
            while len(self._recorded) > self._limit:
                self._recorded.popitem(last=False)
                self._dropped += 1
                if self._dropped == 1:
                    warnings.warn(
                        f"{self._name} was called with more than {self._limit} signatures of operands (shapes, levels, noise): "
                        "the recordings used longest ago are dropped and made again when called for; "
                        "hg.program(..., limit=) keeps more",
                        RuntimeWarning,
                        stacklevel=4,
                    )
        return value

    @property
    def _name(self) -> str:
        return str(getattr(self._function, "__name__", type(self._function).__name__))

    @property
    def recordings(self) -> int:
        """How many signatures it has recordings for at this moment."""
        return len(self._recorded)

    @property
    def replays(self) -> int:
        """How many calls were replays of what is kept."""
        return sum(int(r.core.replays) for r in list(self._recorded.values()))

    def __repr__(self) -> str:
        lines = [f"<program {self._name}: {self.recordings} of at most {self._limit} recordings"]
        for r in list(self._recorded.values()):
            core, calls = r.core, r.core.calls
            names = ", ".join(f"{count} {name}" for name, count in sorted(calls.items(), key=lambda c: -c[1]))
            together = f", {core.launches} where alike ones go together" if core.launches else ""
            lines.append(
                f"  {sum(calls.values())} calls, {core.depth} in a row{together}: {names or 'nothing'}; "
                f"at most {readable_bytes(core.peak_bytes)} of memory at a time, {readable_bytes(core.constant_bytes)} of constants; "
                f"reads {readable_bytes(core.bytes_read)}, writes {readable_bytes(core.bytes_written)}, "
                f"{core.products / 1e6:,.1f} M products; replayed {core.replays} times, {core.graphs} of them as a graph"
            )
        return "\n".join(lines) + ">"


def program(function: Callable[..., Any], *examples: Any, limit: int = 16) -> Program:
    """Record a function of ciphertext tensors, of any scheme, so that calling it costs no Python and less of the host.

    `examples` are operands to record it with now (nothing is recorded where none are given); calls with other shapes, levels
    or noise record again, up to `limit` recordings. The result is called as the function is, and gives the same bits.
    Plaintexts, weights and other tensors that the function takes from outside are kept as they were when it was recorded;
    operands, their keys and results are not kept. May be used as a decorator.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    >>> server = hg.Server(secret.evaluation_keys())
    >>> x = server.bind(secret.encrypt([1, 2, 3]))
    >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
    >>> secret.decrypt(f(x))[:3]
    array([ 2,  5, 10])
    """
    recorded = Program(function, limit=limit)
    if examples:
        recorded(*examples)
    return recorded
