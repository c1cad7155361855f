"""Keys and servers of every scheme: generation, files and messages.

The classes of each scheme add encryption, decryption and the kinds of evaluation keys. A server's keys cannot decrypt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np

from heliograph import _core
from heliograph._common.arguments import WORD, Buffer, described, is_whole, path_of, printable, whole
from heliograph._common.html import HtmlRepr
from heliograph._common.key_needs import merged_needs, needs_of
from heliograph._common.operations import composite
from heliograph._common.parameters import OfParameters, P, Parameters
from heliograph._common.pickling import REDUCERS
from heliograph._common.process import log_device, logger
from heliograph._common.schemes import (
    SCHEMES,
    EngineObject,
    Scheme,
    engine_property,
    scheme_of,
    sets_of,
    split_type,
    type_of_bytes,
    type_of_file,
)
from heliograph._common.tensor import Tensor

K = TypeVar("K")
L = TypeVar("L")
R = TypeVar("R")
if TYPE_CHECKING:  # Python 3.11's TypeVar takes no default
    from typing_extensions import TypeVar as DefaultedTypeVar

    T = DefaultedTypeVar("T", bound=Tensor[Any, Any], default=Any)
    E = DefaultedTypeVar("E", default=Any)
    U = DefaultedTypeVar("U", default=Any)
else:
    T, E, U = (TypeVar(name) for name in "TEU")


@runtime_checkable
class CallLimit(Protocol):
    """A limit of calls of `Server.compute`, such as `hg.Costs`."""

    def _require_call(self, function: Callable[..., Any], *operands: Any) -> None:
        """Raises LimitError for a call beyond the limit."""


class Keyed(OfParameters[P]):
    """A key of a parameter set, with the id of its secret key."""

    id = engine_property(
        "key_id", str, "Id of the secret key: 16 random bytes, hex. Every ciphertext and key made with it carries the id."
    )

    def save(self, path: Any) -> None:
        """Writes the key to a file, atomically. A secret key's file has mode 0600: only its owner reads it.

        >>> server.keys.save("server.hg")
        >>> hg.load("server.hg").id == secret.id
        True
        """
        self._core.save(path_of(path))

    def _title(self) -> str:
        """Returns scheme, kind and id, for a repr."""
        kind = {"PublicKey": "public key", "EvaluationKeys": "evaluation keys", "SecretKey": "secret key"}
        return f"{self.parameters.scheme} {kind[type(self).__name__]} {self.id[:8]}"

    def __repr__(self) -> str:
        return f"<{self._title()}: {self.parameters!r}>"


class TransferableKey(Keyed[P]):
    """A key that its owner may send: a public key or evaluation keys."""

    _kind: str  #: name of the kind in file types, such as "public-key"

    def to_bytes(self) -> bytes:
        """Returns the key in the format of a file.

        >>> len(server.keys.to_bytes()) < server.keys.nbytes  # seeded
        True
        """
        return bytes(self._core.to_bytes())

    def __reduce__(self) -> Any:
        """Supports pickle by the file's bytes."""
        return from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads bytes that `to_bytes` returned. Raises FormatError, DamagedFileError, VersionError.

        >>> hg.EvaluationKeys.from_bytes(server.keys.to_bytes()).id == secret.id
        True
        """
        own, split = scheme_of(cls), None
        if own is None:
            split = split_type(type_of_bytes(data))
        scheme = own or (split[0] if split else _any_scheme())
        return cls(scheme.reader(cls._kind).from_bytes(data))


class PublicKey(TransferableKey[P]):
    """A key that encrypts and does not decrypt, such as `hg.bfv.PublicKey` and `hg.ckks.PublicKey`. TFHE has no public keys.

    >>> public = secret.public_key()
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _kind = "public-key"

    if TYPE_CHECKING:

        def encrypt(self, *values: Any, **options: Any) -> Any:
            """Encrypts values, as each scheme's class documents."""


class EvaluationKeys(TransferableKey[P], Generic[P, T]):
    """The keys by which a server computes on tensors of type T, such as `hg.tfhe.EvaluationKeys`. Evaluation keys do not
    decrypt.

    >>> server.keys.parameters == secret.parameters, server.keys.id == secret.id
    (True, True)
    """

    _kind = "evaluation-keys"

    nbytes = engine_property("nbytes", int, "Size in memory, in bytes; a file takes half of it or less.")

    def _read(self, reader: Callable[..., Any], *source: Any, limit: int) -> T:
        """Reads a tensor with the parameter set of these keys by a function of the engine, without binding the tensor to the
        keys.

        """
        tensor: T = Tensor(reader(*source, limit, self.parameters.hash))  # type: ignore[assignment]
        return tensor


class SwitchKeys(EvaluationKeys[P, T]):
    """Key-switching keys: for relinearization and for rotations of slots."""

    relinearize = engine_property("relinearize", bool, "Whether there is a relinearization key.")
    rotations = engine_property("rotations", list[int], "Rotation steps to the left that have a key, ascending.")
    of_programs = engine_property(
        "of_programs", list, "Names of keys for programs of instructions (`hg.cinnamon.Program.keys`)."
    )
    most_switches = engine_property(
        "most_switches",
        int,
        "Maximum key switches of one rotation: 1 unless a `Server` composes rotations (``compose_rotations=``).",
    )

    def composition(self, step: int) -> list[int] | None:
        """Returns the shortest sequence of keyed rotations that equals a rotation by `step`, in order of application.

        Each element is one key switch. The result is [] for a multiple of the rotations' period, and None if these keys do
        not compose the step. `step` may be negative or exceed the period. Rotations use this sequence if ``compose=`` or the
        server allows it.

        The sequence is a shortest path over the period. One search for each set of keys finds all paths, in bounded time
        (docs/adr/0033). Raises DtypeError.

        >>> server.keys.rotations, server.keys.composition(3), server.keys.composition(1)
        ([1, 2], [2, 1], [1])
        """
        steps: list[int] | None = self._core.composition(whole(step, "a rotation"))
        return steps

    @property
    def reach(self) -> tuple[int, int]:
        """(divisor, switches): `composition` makes all multiples of the divisor, each by at most `switches` key switches.

        >>> secret.evaluation_keys(rotations=[4, 8]).reach[0]
        4

        Without rotation keys the divisor is the period and the number of key switches is 0.
        """
        divisor, switches = self._core.reach()
        return int(divisor), int(switches)

    def _composing(self, compose: bool | int | None) -> Self:
        """Returns the keys with compositions (True or a number), without (False) or unchanged (None)."""
        most = self.most_switches if compose is None else switches_of(compose)
        return self if most == self.most_switches else type(self)(self._core.composing(most))

    _swap: ClassVar[tuple[str, str]]  #: key for the column exchange or conjugation: its attribute, and its name in errors

    def _period(self) -> int:
        """Returns the period of rotations: steps that differ by a multiple of it rotate equally."""
        raise NotImplementedError

    def _steps(self) -> set[int]:
        """Returns the steps of all rotation keys."""
        return set(self.rotations)

    def _for(self, steps: Iterable[int] = (), swap: bool = False) -> Any:
        """Returns the engine's keys for some rotations and, with `swap`, the column exchange or conjugation."""
        return self._core  # the engine reports missing keys

    @contextmanager
    def _naming(
        self, what: str, steps: Iterable[int] = (), swap: bool = False, *, ask: str = "", composes: bool = True
    ) -> Iterator[None]:
        """Context in which the engine's MissingKeyError lists all keys that `what` needs and lacks, and the argument `ask`
        for them. `composes`: whether composed rotations replace keys.
        """
        try:
            yield
        except _core.MissingKeyError:
            self._require(what, steps, swap, ask=ask, composes=composes)
            raise

    def _require(
        self,
        what: str,
        steps: Iterable[int] = (),
        swap: bool = False,
        *,
        relinearize: bool = False,
        bootstrap: bool = False,
        ask: str = "",
        composes: bool = True,
    ) -> None:
        """Raises a MissingKeyError that lists all keys that `what` needs, and the missing keys among them.

        An empty `what` stands for rotations by steps that the caller passed.
        """
        period, have = self._period(), self._steps()
        required = sorted({s % period: s for s in steps if s % period}.values())
        missing = [s for s in required if s % period not in have]
        if missing and composes and self.most_switches > 1:
            missing = [s for s in missing if not 1 <= (self._core.switches(s) or 0) <= self.most_switches]
        attribute, called = self._swap
        others = {
            "relinearize": (relinearize, "a relinearization key"),
            attribute: (swap, called),
            "bootstrap": (bootstrap, "the keys of bootstrapping"),
        }
        lacking = [name for name, (is_needed, _) in others.items() if is_needed and not getattr(self, name)]
        if not missing and not lacking:
            return
        if not what:
            subject = f"rotation {missing[0]} is" if len(missing) == 1 else f"rotations {_steps(missing)} are"
            raise _core.MissingKeyError(
                f"{subject} not among the keys; they have {_steps(sorted(have)) if have else 'none'}. Make keys with "
                f"evaluation_keys(rotations=[{_steps(required)}{', ...' if len(required) == 1 else ''}])"
                f"{self._instead(missing, 'compose={}')}"
            )
        requirements = _joined(
            ([f"the rotations {_steps(required)}"] if required else []) + [c for w, c in others.values() if w]
        )
        absent = _joined(([f"the rotations {_steps(missing)}"] if missing else []) + [others[name][1] for name in lacking])
        if not ask:
            ask = ", ".join(([f"rotations=[{_steps(required)}]"] if required else []) + [f"{name}=True" for name in lacking])
        raise _core.MissingKeyError(
            f"cannot compute {what}: it needs {requirements}; "
            f"these keys lack {'all of that' if absent == requirements else absent}. "
            f"Make keys with evaluation_keys({ask})"
            f"{self._instead(missing, 'hg.Server(keys, compose_rotations={})') if composes and not lacking else ''}"
        )

    def _instead(self, missing: Sequence[int], word: str) -> str:
        """Returns an error's advice on rotations without a key. The advice is the argument `word`, which allows a
        composition, and its key switches, or the one additional key that a composition needs.

        """
        counts = [self._core.switches(s) for s in missing]
        if all(counts):
            most, them = max(counts), "it" if len(missing) == 1 else "them"
            allowed = True if most <= MOST_SWITCHES and self.most_switches == 1 else most
            each = f", at most {most:,} for one rotation" if len(missing) > 1 else ""
            return (
                f"; or pass {word.format(allowed)}: these keys compose {them} by {sum(counts):,} key switches{each}, "
                f"instead of {'1 with its own key' if len(missing) == 1 else f'{len(missing):,} with their own keys'}"
            )
        if len(missing) > 1:
            return f"; or add one key, for rotation {self._core.cheapest(missing)}, and pass {word.format(True)}"
        return "; these keys do not compose it"


#: Maximum key switches of one rotation with ``compose=True``.
MOST_SWITCHES = 32


def switches_of(compose: Any) -> int:
    """Returns the maximum key switches of one rotation, from an argument `compose`. Raises DtypeError, ParameterError."""
    if isinstance(compose, (bool, np.bool_)):
        return MOST_SWITCHES if compose else 1
    if not is_whole(compose):
        raise _core.DtypeError(
            f"compose must be True, False or the maximum key switches of one rotation, not {described(compose)}"
        )
    if not 1 <= compose < WORD:
        raise _core.ParameterError(f"compose must be at least 1 key switch, not {described(compose)}")
    return int(compose)


def _steps(steps: Sequence[int]) -> str:
    """Formats steps: "1, 2, 4", or the first 16 and the last of more than 20."""
    if len(steps) <= 20:
        return ", ".join(map(str, steps))
    return f"{', '.join(map(str, steps[:16]))}, ..., {steps[-1]} ({len(steps)} in all)"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def with_programs(secret: Any, keys: Any, programs: Any, progress: Any) -> Any:
    """Returns the engine's `keys` plus those of one or several programs of instructions. Raises DtypeError."""
    for program in programs if isinstance(programs, (list, tuple)) else [programs]:
        if not hasattr(program, "_core") or not isinstance(program._core, _core.cinnamon.Program):
            raise _core.DtypeError(
                f"cinnamon must be a program from hg.cinnamon.load, or a list of them, not {described(program)}"
            )
        keys = program._core.make_keys(secret, keys, progress)
    return keys


class NotingKeys:
    """Mixin for the keys of a trial run (`hg.parameters_for`, ``evaluation_keys(for_=...)``): the mixin has every key and
    records the keys that are used.

    """

    def __init__(self, secret: Any, relinearize: bool = True, **others: bool) -> None:
        self._core = secret.evaluation_keys(relinearize, [], False, None, **others)
        self._secret, self._relinearize = secret, relinearize
        self.steps: set[int] = set()
        self.swaps = False

    def _for(self, steps: Iterable[int] = (), swap: bool = False) -> Any:
        several = sorted({s for s in steps if s})
        self.steps.update(several)
        self.swaps = self.swaps or swap
        return self._secret.evaluation_keys(self._relinearize, several, swap)

    def _composing(self, compose: bool | int | None) -> Self:
        """Returns these keys: a trial run composes no rotations, so that it records the steps themselves."""
        switches_of(bool(compose) if compose is None else compose)
        return self

    def _require(self, what: str, *_: Any, **__: Any) -> None:
        """Does nothing: no key is missing in a trial run, and `_for` records the keys that are used."""


class SecretKey(Keyed[P], Generic[P, E]):
    """The data owner's key: it encrypts, decrypts and makes the other keys. Keep the key secret.

    `generate` and `load` return an object of the scheme's own class, such as `hg.tfhe.SecretKey`, which documents the
    options.

    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=4))
    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    if TYPE_CHECKING:

        def encrypt(self, *values: Any, **options: Any) -> Any:
            """Encrypts values, as each scheme's class documents."""

        def decrypt(self, *tensor: Any, **options: Any) -> Any:
            """Decrypts a tensor, as each scheme's class documents."""

        def evaluation_keys(self, *args: Any, **options: Any) -> E:
            """Makes evaluation keys, as each scheme's class documents."""

    def __reduce__(self) -> NoReturn:
        self._refuse("pickle", "pickles are sent and stored without protection")

    def __copy__(self) -> NoReturn:
        self._refuse("copy", "each copy is one more secret in memory")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self._refuse("copy", "each copy is one more secret in memory")

    def _refuse(self, what: str, why: str) -> NoReturn:
        raise _core.DtypeError(
            f"cannot {what} a secret key: {why}. Use the same object, or store it with secret.save(path) and read it with "
            "hg.SecretKey.load(path). To other processes, send secret.public_key() or secret.evaluation_keys()"
        )

    def _trial(self, function: Callable[..., Any], examples: Sequence[Any] | None) -> dict[str, Any]:
        """Returns the arguments of `evaluation_keys` for a function, found by running it on the `null` device.

        The run is repeated with more kinds of keys until none is missing. A function that uses plaintexts or matrices
        encoded on the present device runs on this device, on zeros.
        """
        inputs = [None] if examples is None else list(examples)
        core = self.parameters._core
        make = self._scheme.core.SecretKey.generate
        try:
            return type(self)(make(core.on_device("null")))._tried(function, inputs)
        except _core.MismatchError:
            return type(self)(make(core))._tried(function, inputs)

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        """Runs one trial on placeholder operands encrypted by this key."""
        raise NotImplementedError

    def _key_options(self, for_: Any, options: dict[str, Any], cinnamon: Any) -> tuple[dict[str, Any], list[Any]]:
        """Merges the keys that the caller of `evaluation_keys` requested with the keys that the purposes `for_` need."""
        programs = list(cinnamon) if isinstance(cinnamon, (list, tuple)) else [cinnamon]
        if for_ is None:
            return options, programs
        needs, more = needs_of(for_, self.parameters, self._trial)
        for name, need in needs.items():
            if name not in options:
                if not need:
                    continue
                raise _core.MismatchError(
                    f"cannot make keys for this function: it needs {name}, which keys of {self._scheme.title} do not have"
                )
            options[name] = merged_needs(options[name], need)
        return options, [*programs, *more]

    @classmethod
    def generate(cls, parameters: Parameters[K]) -> K:
        """Generates a new key of the parameters' scheme from the operating system's randomness. Raises DtypeError.

        >>> hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20)).parameters.security
        '128-bit'
        """
        own = scheme_of(cls)
        if not isinstance(parameters, Parameters) or own not in (None, parameters._scheme):
            what = sets_of([own] if own else SCHEMES.values())
            raise _core.DtypeError(f"a secret key is generated from {what}, not {type(parameters).__name__}")
        secret: K = cls(parameters._scheme.core.SecretKey.generate(parameters._core))  # type: ignore[assignment]
        return secret

    @classmethod
    def load(cls, path: Any) -> Self:
        """Reads a file that `save` wrote, of any scheme. Raises FormatError, DamagedFileError, VersionError.

        >>> secret.save("secret.hg")
        >>> hg.SecretKey.load("secret.hg").id == secret.id
        True
        """
        name = path_of(path)
        own = scheme_of(cls)
        if own is None:
            split = split_type(type_of_file(name))
            own = split[0] if split else _any_scheme()
        return cls(own.core.SecretKey.load(name))

    def secret_bytes(self) -> bytes:
        """Returns the content of a file that `save` writes, unprotected. Python does not wipe these bytes from memory;
        prefer `save`.

        >>> hg.SecretKey.from_secret_bytes(secret.secret_bytes()).id == secret.id
        True
        """
        return bytes(self._core.secret_bytes())

    @classmethod
    def from_secret_bytes(cls, data: Buffer) -> Self:
        """Reads the bytes of `secret_bytes`, or of a file that `save` wrote. Raises FormatError, DamagedFileError,
        VersionError.

        >>> hg.SecretKey.from_secret_bytes(memoryview(secret.secret_bytes())).id == secret.id
        True
        """
        own = scheme_of(cls)
        if own is None:
            split = split_type(type_of_bytes(data))
            own = split[0] if split else _any_scheme()
        return cls(own.core.SecretKey.from_secret_bytes(data))


class PublishingKey(SecretKey[P, E], Generic[P, E, U]):
    """A secret key of a scheme with public keys."""

    def public_key(self) -> U:
        """Makes a public key, with which other parties can encrypt for this secret key.

        >>> secret.decrypt(secret.public_key().encrypt([1, 2, 3, 4]))
        array([1, 2, 3, 4])
        """
        key: U = PublicKey(self._core.public_key())  # type: ignore[assignment]  # of its scheme
        return key


def _any_scheme() -> Scheme:
    """Returns a scheme whose readers raise FormatError for data that belongs to no known scheme."""
    return next(iter(SCHEMES.values()))


def _require_bytes(what: str, value: Any) -> None:
    """Raises DtypeError, ParameterError for anything but None or a number of bytes."""
    if value is not None and not is_whole(value):
        raise _core.DtypeError(f"{what} must be a number of bytes, not {described(value)}")
    if value is not None and value < 0:
        raise _core.ParameterError(f"{what} must be at least 0 bytes, not {described(value)}")


class Server(HtmlRepr, Generic[T]):
    """A party that computes, of any scheme: it holds evaluation keys and no secret key.

    `limit`: maximum memory of one tensor from a file or message, in bytes; None: the device's free memory at that time. The
    limit counts `Tensor.nbytes` with seeds expanded; an axis of length zero counts as one. The content of the tensor's file
    must fit the limit too.

    `costs`: maximum costs of one call of `compute` (`hg.Costs`); None: no maximum.

    `compose_rotations`: whether rotations that have no key are composed of rotations with keys, by the fewest key switches.
    True allows 32 key switches for one rotation; a number sets another maximum. If `compose_rotations` is False, a rotation
    without a key raises MissingKeyError. The setting holds for all computations on this server's tensors: sums over slots,
    matrices on slots, networks. `EvaluationKeys.composition` returns the sequence of rotations that compose a step.

    Raises DtypeError, ParameterError, MismatchError.

    >>> server = hg.Server(secret.evaluation_keys(), limit=1 << 30)  # what one request may take in memory
    >>> x = server.from_bytes(secret.encrypt([1, 2, 3, 4]).to_bytes())
    >>> secret.decrypt(x * x)
    array([ 1,  4,  9, 16])
    """

    def __init__(
        self,
        keys: EvaluationKeys[Any, T],
        *,
        limit: int | None = None,
        costs: CallLimit | None = None,
        compose_rotations: bool | int = False,
    ) -> None:
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"a server is made from evaluation keys, not {type(keys).__name__}")
        _require_bytes("limit", limit)
        if isinstance(keys, SwitchKeys):
            keys = keys._composing(compose_rotations)
        elif switches_of(compose_rotations) > 1:
            raise _core.MismatchError(f"cannot compose rotations: keys of {keys._scheme.title} have none")
        self.keys: Any = keys
        if costs is not None and not isinstance(costs, CallLimit):
            raise _core.DtypeError(f"costs must be hg.Costs(...) or None, not {described(costs)}")
        self.limit = limit
        self.costs = costs
        log_device()
        logger.info("server of %r", keys)

    @property
    def parameters(self) -> Any:
        """The parameter set."""
        return self.keys.parameters

    def bind(self, tensor: T) -> T:
        """Returns the tensor with this server's keys attached. Raises DtypeError, MismatchError, WrongKeyError.

        >>> secret.decrypt(server.bind(secret.encrypt([1, 2, 3, 4])) ** 2)
        array([ 1,  4,  9, 16])
        """
        if not isinstance(tensor, Tensor):
            raise _core.DtypeError(f"a server binds tensors, not {type(tensor).__name__}")
        if tensor.parameters != self.keys.parameters:
            raise _core.MismatchError(
                f"the tensor and this server's keys are of different {tensor.parameters._differs_from(self.parameters)}"
            )
        if tensor.key_id and tensor.key_id != self.keys.id:
            raise _core.WrongKeyError(
                f"the tensor is of key {tensor.key_id[:8]}, this server's keys are of {self.keys.id[:8]}"
            )
        return type(tensor)(tensor._core, self.keys)

    def _allowed(self) -> int:
        """Returns the maximum bytes of one tensor, as the engine counts them."""
        free: int = self.parameters.free_memory if self.limit is None else self.limit
        return min(free, WORD)

    @composite
    def load(self, path: Any) -> T:
        """Reads a tensor from a file and binds it to the keys.

        Raises FormatError and its subclasses, MismatchError, WrongKeyError; and LimitError beyond the limit, before memory
        is allocated.

        >>> secret.encrypt([1, 2, 3, 4]).save("request.hg")
        >>> secret.decrypt(server.load("request.hg") * 2)
        array([2, 4, 6, 8])
        """
        return self._bind_loaded(
            self.keys._read(self.keys._scheme.core.Ciphertext.load, path_of(path), limit=self._allowed())
        )

    @composite
    def from_bytes(self, data: Buffer) -> T:
        """Reads a tensor from bytes and binds it to the keys. Raises the errors of `load`.

        >>> server.from_bytes(secret.encrypt([1, 2, 3, 4]).to_bytes()).shape
        ()
        """
        return self._bind_loaded(self.keys._read(self.keys._scheme.core.Ciphertext.from_bytes, data, limit=self._allowed()))

    @composite
    def _from_stream(self, data: Buffer, arrived: Callable[[int], None]) -> T:
        """Reads a tensor from a buffer that is still being filled.

        ``arrived(count)`` blocks until the first `count` bytes will not change any more.
        """
        return self._bind_loaded(
            self.keys._read(self.keys._scheme.core.Ciphertext.from_incoming, data, arrived, limit=self._allowed())
        )

    def _bind_loaded(self, tensor: T) -> T:
        bound = self.bind(tensor)
        logger.debug("read %r", bound)
        return bound

    def compute(self, function: Callable[..., R], *operands: Any) -> R:
        """Returns ``function(*operands)`` if its forecast is within `costs`.

        `operands` are tensors of this server. `function` is a function or a program, as for `hg.forecast`. Raises LimitError
        beyond `costs`, before anything is computed; the operands are unchanged.

        >>> import heliograph as hg
        >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
        >>> server = hg.Server(secret.evaluation_keys(), costs=hg.Costs(result_bytes=1 << 20))
        >>> x = server.bind(secret.encrypt([1, 2, 3], pad=True))
        >>> server.compute(lambda x: x * x, x).shape
        ()
        >>> server.compute(lambda x: x * x, x.broadcast_to((1000,)))
        Traceback (most recent call last):
            ...
        heliograph._core.LimitError: its results would take 562.5 MiB; this server allows 1.0 MiB
        """
        if self.costs is not None:
            self.costs._require_call(function, *operands)
        return function(*operands)

    def encode(self, values: Any, **options: Any) -> Any:
        """Encodes values as plaintexts of this server's parameters, as `hg.encode` does.

        >>> secret.decrypt(x + server.encode([10, 20, 30, 40]))
        array([[11, 22, 33, 44],
               [15, 26, 37, 48]])
        """
        return encode(self.parameters, values, **options)

    def __repr__(self) -> str:
        most = getattr(self.keys, "most_switches", 1)
        composed = f", which composes rotations of at most {most:,} key switches" if most > 1 else ""
        return f"<server of {self.keys!r}{composed}>"


def encode(parameters: Any, values: Any, **options: Any) -> Any:
    """Encodes values as plaintexts of a parameter set's scheme, for sums and products with tensors.

    The options are those of `hg.bfv.encode` or `hg.ckks.encode`. Raises the errors of these functions, ParameterError for an
    option of another scheme, and MismatchError if the scheme has no plaintexts.

    >>> import heliograph as hg
    >>> hg.encode(hg.bfv.parameters(depth=1, plain_bits=16), [1, 2, 3])
    <BFV plaintext ()>
    """
    if not isinstance(parameters, Parameters):
        what = sets_of(s for s in SCHEMES.values() if hasattr(s.core, "Plaintext"))
        raise _core.DtypeError(f"values are encoded by {what}, not {type(parameters).__name__}")
    scheme = parameters._scheme
    plaintext: Any = getattr(scheme.core, "Plaintext", None)
    kind: Any = EngineObject._classes.get(plaintext)
    if kind is None:
        raise _core.MismatchError(f"{scheme.title} has no plaintexts: {scheme.instead['encode']}")
    set_options = {name: value for name, value in options.items() if value is not None}
    for name in set_options:
        if name not in kind._options:
            raise _core.ParameterError(
                f"{scheme.title} has no {described(name)} of plaintexts: their options are {', '.join(kind._options)}"
            )
    return kind._encoded(parameters, values, **set_options)


@overload
def load(path: Any, *, memory: int | None = None) -> Tensor[Any, Any] | PublicKey[Any] | EvaluationKeys[Any, Any]: ...


@overload
def load(path: Any, kind: type[L], *, memory: int | None = None) -> L: ...


@composite
def load(path: Any, kind: type[Any] = EngineObject, *, memory: int | None = None) -> Any:
    """Reads a tensor, a public key or evaluation keys of any scheme from a file. Secret keys are read by `SecretKey.load`.

    `kind` is the required class, such as `hg.ckks.Tensor`; it is also the static type of the result.

    `memory` is the maximum host memory of the object, in bytes; None: no maximum. Evaluation keys that take more bytes
    (`nbytes`) stay in their file, which remains open. Each key is read and checked when it is used, and evicted when other
    keys need the memory. Results have the same bits as with the keys in memory. Bootstraps of TFHE need the whole key in
    memory; only the key's unprepared form stays in the file.

    Raises FormatError and its subclasses, also for an object of another class. With `memory`, the use of a key raises
    DamagedFileError if the file has changed. LimitError is raised for a tensor or a public key larger than `memory`, and for
    `memory` below the need of one key, 1.5 times `parameters.switch_key_bytes`. LimitError is also raised for a computation
    whose keys exceed `memory` at once.

    >>> x.save("values.hg")
    >>> hg.load("values.hg").shape
    (2,)
    >>> server.keys.save("server.hg")
    >>> keys = hg.load("server.hg", memory=2 * server.parameters.switch_key_bytes)
    >>> secret.decrypt(hg.Server(keys).bind(x) ** 2)
    array([[ 1,  4,  9, 16],
           [25, 36, 49, 64]])
    """
    name = path_of(path)
    _require_bytes("memory", memory)
    return _read(name, type_of_file(name), "load", printable(name), kind, WORD if memory is None else min(memory, WORD))


@overload
def from_bytes(data: Buffer) -> Tensor[Any, Any] | PublicKey[Any] | EvaluationKeys[Any, Any]: ...


@overload
def from_bytes(data: Buffer, kind: type[L]) -> L: ...


@composite
def from_bytes(data: Buffer, kind: type[Any] = EngineObject) -> Any:
    """Reads a tensor, a public key or evaluation keys from the bytes of `to_bytes`. Secret keys are read by
    `SecretKey.from_secret_bytes`.

    `data` is bytes, a bytearray, a memoryview or a mapped file. Immutable bytes are read without a copy. Raises DtypeError
    for anything but contiguous bytes, FormatError and its subclasses.

    >>> hg.from_bytes(x.to_bytes()).shape, hg.from_bytes(bytearray(server.keys.to_bytes())).id == secret.id
    ((2,), True)
    """
    return _read(data, type_of_bytes(data) or "", "from_bytes", "this", kind)


def _read(source: Any, file_type: str, way: str, name: str, kind: type[Any], *options: int) -> Any:
    """Reads an object of the type `file_type`. `way` is "load" or "from_bytes"; `name` is the source's name in errors."""
    if file_type == "heliograph.program":
        raise _core.FormatError(f"{name} holds a recorded program; read it with hg.Program.{way}")
    if file_type == "heliograph.sealed-model":
        raise _core.FormatError(f"{name} holds a model bundle; read it with hg.ModelBundle.load")
    scheme, what = split_type(file_type) or (_any_scheme(), "ciphertext")
    if what not in ("ciphertext", "public-key", "evaluation-keys"):
        secret = "SecretKey.load" if way == "load" else "SecretKey.from_secret_bytes"
        raise _core.FormatError(f"{name} holds a {printable(what)}; secret keys are read by {secret} alone")
    reader = scheme.reader(what)
    core = (reader.load if way == "load" else reader.from_bytes)(source, *options)
    value = EngineObject._classes[type(core)](core)
    if not isinstance(value, kind):
        raise _core.FormatError(f"{name} holds a {what} of {scheme.title}, no {kind.__module__}.{kind.__qualname__}")
    return value


REDUCERS["tensor"] = lambda x: (from_bytes, (x.to_bytes(),))
