"""Keys and servers, of every scheme: what a server holds cannot decrypt.

The schemes' own classes add what their values and evaluation keys are; making, reading and writing is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, overload

import numpy as np

from heliograph import _core
from heliograph._arrays import WORD, Buffer, described, is_whole, path_of, printable, whole
from heliograph._html import Shown
from heliograph._parameters import OfParameters, P, Parameters
from heliograph._pickling import REDUCERS
from heliograph._schemes import SCHEMES, Faced, Scheme, scheme_of, sets_of, split_type, told, type_of_bytes, type_of_file
from heliograph._shapes import Tensor
from heliograph.forecasting import Costs, forecast
from heliograph.host import log_device, logger
from heliograph.key_needs import needs_of

K = TypeVar("K")
L = TypeVar("L")
R = TypeVar("R")
if TYPE_CHECKING:  # Python 3.11's have no defaults
    from typing_extensions import TypeVar as DefaultedTypeVar

    T = DefaultedTypeVar("T", bound=Tensor[Any, Any], default=Any)
    E = DefaultedTypeVar("E", default=Any)
    U = DefaultedTypeVar("U", default=Any)
else:
    T, E, U = (TypeVar(name) for name in "TEU")


class Keyed(OfParameters[P]):
    """A key: of a parameter set, with the id of a secret key."""

    id = told(
        "key_id", str, "The id of the secret key: 16 random bytes, hex. Every ciphertext and key made with it carries them."
    )

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing; a secret key's can only its owner read (mode 0600).

        >>> server.keys.save("server.hg")
        >>> hg.load("server.hg").id == secret.id
        True
        """
        self._core.save(path_of(path))

    def _named(self) -> str:
        """Scheme, kind and id, for a repr."""
        kind = {"PublicKey": "public key", "EvaluationKeys": "evaluation keys", "SecretKey": "secret key"}
        return f"{self.parameters.scheme} {kind[type(self).__name__]} {self.id[:8]}"

    def __repr__(self) -> str:
        return f"<{self._named()}: {self.parameters!r}>"


class Sent(Keyed[P]):
    """A key that leaves its owner."""

    _kind: str  #: in types of files

    def to_bytes(self) -> bytes:
        """The key as a file's bytes.

        >>> len(server.keys.to_bytes()) < server.keys.nbytes  # seeded
        True
        """
        return bytes(self._core.to_bytes())

    def __reduce__(self) -> Any:
        """For pickle: the file's bytes."""
        return from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads `to_bytes`. Raises FormatError, DamagedFileError, VersionError.

        >>> hg.EvaluationKeys.from_bytes(server.keys.to_bytes()).id == secret.id
        True
        """
        own, found = scheme_of(cls), None
        if own is None:
            found = split_type(type_of_bytes(data))
        scheme = own or (found[0] if found else _any_scheme())
        return cls(scheme.reader(cls._kind.replace("_", "-"), "{}_from_bytes")(data))


class PublicKey(Sent[P]):
    """Encrypts; does not decrypt. Of any scheme that has one: `hg.bfv.PublicKey`, `hg.ckks.PublicKey`.

    >>> public = secret.public_key()
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _kind = "public_key"

    if TYPE_CHECKING:

        def encrypt(self, *values: Any, **options: Any) -> Any:
            """Each scheme's own."""


class EvaluationKeys(Sent[P], Generic[P, T]):
    """What a server needs to compute on tensors of type T. Nothing in it decrypts. Of any scheme: `hg.tfhe.EvaluationKeys`.

    >>> server.keys.parameters == secret.parameters, server.keys.id == secret.id
    (True, True)
    """

    _kind = "evaluation_keys"

    nbytes = told("nbytes", int, "Bytes in memory; a file takes half of it or less.")

    def _read(self, call: str, *source: Any, limit: int) -> T:
        """A tensor of these keys' set from a file, bytes or what gives them; not bound to them yet."""
        found: T = Tensor(self._scheme.call(call)(*source, limit, self.parameters.hash))  # type: ignore[assignment]
        return found


class SwitchKeys(EvaluationKeys[P, T]):
    """Keys by which products become ciphertexts of degree one, and slots are turned."""

    relinearize = told("relinearize", bool, "Whether there is a relinearization key.")
    rotations = told("rotations", list[int], "Steps to the left there are keys for, ascending.")
    of_programs = told("of_programs", list, "Names of keys for programs of instructions (`hg.cinnamon.Program.keys`).")
    most_switches = told(
        "most_switches",
        int,
        "Key switches that one rotation may take: 1 unless a `Server` composes rotations (``compose_rotations=``).",
    )

    def composition(self, step: int) -> list[int] | None:
        """The fewest steps of `rotations` that make a rotation by `step`, in the order in which they are applied: one key switch each.
        [] for a multiple of the rotations' period; None where these keys do not make it. `step` may be negative or beyond the period.

        It is a shortest path over the period, found by one search for each set of keys, whose time is bounded for any set
        (docs/adr/0033). Rotations take it where ``compose=`` or the server allows it. Raises DtypeError.

        >>> server.keys.rotations, server.keys.composition(3), server.keys.composition(1)
        ([1, 2], [2, 1], [1])
        """
        found: list[int] | None = self._core.composition(whole(step, "a rotation"))
        return found

    @property
    def reach(self) -> tuple[int, int]:
        """(divisor, switches): `composition` makes all multiples of the divisor, each of so many key switches at most.

        >>> secret.evaluation_keys(rotations=[4, 8]).reach[0]
        4

        Without rotation keys the divisor is the period, and the key switches are 0.
        """
        divisor, switches = self._core.reach()
        return int(divisor), int(switches)

    def _composing(self, compose: bool | int | None) -> Self:
        """These keys as `compose` says: None as they are, False without compositions, True or a number with them."""
        most = self.most_switches if compose is None else switches_of(compose)
        return self if most == self.most_switches else type(self)(self._core.composing(most))

    _swap: ClassVar[tuple[str, str]]  #: the key beside the rotations': its attribute, and what it is called in errors

    def _period(self) -> int:
        """Rotations by steps that differ by it are the same."""
        raise NotImplementedError

    def _for(self, steps: Iterable[int] = (), swap: bool = False) -> Any:
        """The engine's keys for some rotations and the exchange (or conjugation) that goes with them."""
        return self._core  # the engine says what is missing

    @contextmanager
    def _naming(self, what: str, steps: Iterable[int] = (), swap: bool = False, *, ask: str = "") -> Iterator[None]:
        """Inside, a MissingKeyError of the engine names all keys that `what` needs and lacks, and the argument `ask` that makes them."""
        try:
            yield
        except _core.MissingKeyError:
            self._require(what, steps, swap, ask=ask)
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
    ) -> None:
        """Raises MissingKeyError that names all keys that `what` needs and those of them that are missing. Without `what`: of rotations
        by the caller's steps.
        """
        period, have = self._period(), set(self.rotations)
        needed = sorted({s % period: s for s in steps if s % period}.values())
        missing = [s for s in needed if s % period not in have]
        if missing and self.most_switches > 1:
            missing = [s for s in missing if not 1 <= (self._core.switches(s) or 0) <= self.most_switches]
        attribute, called = self._swap
        others = {
            "relinearize": (relinearize, "a relinearization key"),
            attribute: (swap, called),
            "bootstrap": (bootstrap, "the keys of bootstrapping"),
        }
        lacking = [name for name, (wanted, _) in others.items() if wanted and not getattr(self, name)]
        if not missing and not lacking:
            return
        if not what:
            named = f"rotation {missing[0]} is" if len(missing) == 1 else f"rotations {_steps(missing)} are"
            raise _core.MissingKeyError(
                f"{named} not among the keys; they have {_steps(sorted(have)) if have else 'none'}. Make keys with "
                f"evaluation_keys(rotations=[{_steps(needed)}{', ...' if len(needed) == 1 else ''}])"
                f"{self._instead(missing, 'compose={}')}"
            )
        wanted = _joined(([f"the rotations {_steps(needed)}"] if needed else []) + [c for w, c in others.values() if w])
        absent = _joined(([f"the rotations {_steps(missing)}"] if missing else []) + [others[name][1] for name in lacking])
        if not ask:
            ask = ", ".join(([f"rotations=[{_steps(needed)}]"] if needed else []) + [f"{name}=True" for name in lacking])
        raise _core.MissingKeyError(
            f"cannot compute {what}: it needs {wanted}; these keys lack {'all of that' if absent == wanted else absent}. Make "
            f"keys with evaluation_keys({ask})"
            f"{'' if lacking else self._instead(missing, 'hg.Server(keys, compose_rotations={})')}"
        )

    def _instead(self, missing: Sequence[int], word: str) -> str:
        """What composes rotations that have no key, for an error: the word that allows it and its key switches, or the one key that
        more is needed for that.
        """
        counts = [self._core.switches(s) for s in missing]
        if all(counts):
            most, them = max(counts), "it" if len(missing) == 1 else "them"
            allowed = True if most <= MOST_SWITCHES and self.most_switches == 1 else most
            each = f", {most:,} for one at most" if len(missing) > 1 else ""
            return (
                f"; or say {word.format(allowed)}: the present keys reach {them} in {sum(counts):,} key switches{each}, where "
                f"{'its own key takes 1' if len(missing) == 1 else f'their own keys take {len(missing):,}'}"
            )
        if len(missing) > 1:
            return f"; or make one key more, of rotation {self._core.cheapest(missing)}, and say {word.format(True)}"
        return "; these keys do not compose it"


#: Key switches that one rotation may take where ``compose=True`` allows compositions.
MOST_SWITCHES = 32


def switches_of(compose: Any) -> int:
    """The key switches that one rotation may take, by an argument `compose`. Raises DtypeError, ParameterError."""
    if isinstance(compose, (bool, np.bool_)):
        return MOST_SWITCHES if compose else 1
    if not is_whole(compose):
        raise _core.DtypeError(
            f"compose must be True, False or the most key switches that one rotation may take, not {described(compose)}"
        )
    if not 1 <= compose < WORD:
        raise _core.ParameterError(f"compose must allow one key switch at least, not {described(compose)}")
    return int(compose)


def _steps(steps: Sequence[int]) -> str:
    """1, 2, 4, ..., 1024 (11 in all): of many the first and the last."""
    if len(steps) <= 20:
        return ", ".join(map(str, steps))
    return f"{', '.join(map(str, steps[:16]))}, ..., {steps[-1]} ({len(steps)} in all)"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def with_programs(secret: Any, made: Any, programs: Any, progress: Any) -> Any:
    """The engine's keys `made`, and those of one program of instructions or several. Raises DtypeError."""
    for program in programs if isinstance(programs, (list, tuple)) else [programs]:
        if not hasattr(program, "_core") or not isinstance(program._core, _core.CinnamonProgram):
            raise _core.DtypeError(f"a program of instructions is made by hg.cinnamon.load, not {described(program)}")
        made = program._core.make_keys(secret, made, progress)
    return made


class NotingKeys:
    """Keys of a trial run (`hg.parameters_for`, ``evaluation_keys(for_=...)``): whatever is asked for is there, and noted. Mixed into a
    scheme's keys.
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
        """Nothing is composed: keys are made for what is asked for."""
        switches_of(bool(compose) if compose is None else compose)
        return self

    def _require(self, what: str, *_: Any, **__: Any) -> None:
        """Nothing is missing; what is used is noted at its use."""


class SecretKey(Keyed[P], Generic[P, E]):
    """The data owner's key: encrypts, decrypts, makes the other keys. Keep it.

    Of any scheme: what `generate` and `load` give is that scheme's (`hg.tfhe.SecretKey`), which has more to say.

    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=4))
    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    if TYPE_CHECKING:

        def encrypt(self, *values: Any, **options: Any) -> Any:
            """Each scheme's own, as what follows."""

        def decrypt(self, *tensor: Any, **options: Any) -> Any:
            """Each scheme's own."""

        def evaluation_keys(self, *given: Any, **options: Any) -> E:
            """Each scheme's own."""

    def __reduce__(self) -> NoReturn:
        self._refuse("pickle", "a pickle is sent and stored without protection")

    def __copy__(self) -> NoReturn:
        self._refuse("copy", "each copy is one more secret in memory")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self._refuse("copy", "each copy is one more secret in memory")

    def _refuse(self, what: str, why: str) -> NoReturn:
        raise _core.DtypeError(
            f"cannot {what} a secret key: {why}. Use the same object, or write it to a file of your own on purpose, secret.save(path) and "
            "hg.SecretKey.load(path); other processes need secret.public_key() or secret.evaluation_keys()"
        )

    def _trial(self, function: Callable[..., Any], examples: Sequence[Any] | None) -> dict[str, Any]:
        """The arguments of `evaluation_keys` for a function, which runs on the device that computes nothing: with more and more kinds of
        keys until none is missing. If it uses plaintexts or matrices encoded on this device, it runs here, on zeros.
        """
        given = [None] if examples is None else list(examples)
        core = self.parameters._core
        make = self._scheme.core("SecretKey").generate
        try:
            return type(self)(make(core.on_device("null")))._tried(function, given)
        except _core.MismatchError:
            return type(self)(make(core))._tried(function, given)

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        """One trial with stand-ins for examples, encrypted by this key."""
        raise NotImplementedError

    def _asked(self, for_: Any, given: dict[str, Any], cinnamon: Any) -> tuple[dict[str, Any], list[Any]]:
        """What `evaluation_keys` makes: the keys of its other arguments, and those that the purposes `for_` need."""
        programs = list(cinnamon) if isinstance(cinnamon, (list, tuple)) else [cinnamon]
        if for_ is None:
            return given, programs
        needs, more = needs_of(for_, self.parameters, self._trial)
        for name, wanted in needs.items():
            if name not in given:
                if not wanted:
                    continue
                raise _core.MismatchError(
                    f"cannot make keys for this: it needs {name}, which keys of {self._scheme.title} do not have"
                )
            given[name] = (given[name] or wanted) if isinstance(wanted, bool) else sorted({*given[name], *wanted})
        return given, [*programs, *more]

    @classmethod
    def generate(cls, parameters: Parameters[K]) -> K:
        """A new key of the parameters' scheme from the operating system's randomness.

        >>> hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20)).parameters.security
        '128-bit'
        """
        own = scheme_of(cls)
        if not isinstance(parameters, Parameters) or own not in (None, parameters._scheme):
            what = sets_of([own] if own else SCHEMES.values())
            raise _core.DtypeError(f"a secret key is generated from {what}, not {type(parameters).__name__}")
        found: K = cls(parameters._scheme.core("SecretKey").generate(parameters._core))  # type: ignore[assignment]
        return found

    @classmethod
    def load(cls, path: Any) -> Self:
        """Reads `save`, of any scheme. Raises FormatError, DamagedFileError, VersionError.

        >>> secret.save("secret.hg")
        >>> hg.SecretKey.load("secret.hg").id == secret.id
        True
        """
        name = path_of(path)
        own = scheme_of(cls)
        if own is None:
            found = split_type(type_of_file(name))
            own = found[0] if found else _any_scheme()
        return cls(own.call("load_secret_key")(name))

    def secret_bytes(self) -> bytes:
        """What `save` writes, as bytes: whoever has them decrypts, and Python wipes no memory. `save` is the safer way.

        >>> hg.SecretKey.from_secret_bytes(secret.secret_bytes()).id == secret.id
        True
        """
        return bytes(self._core.secret_bytes())

    @classmethod
    def from_secret_bytes(cls, data: Buffer) -> Self:
        """Reads `secret_bytes`, or the bytes of a file that `save` wrote. Raises FormatError, DamagedFileError, VersionError.

        >>> hg.SecretKey.from_secret_bytes(memoryview(secret.secret_bytes())).id == secret.id
        True
        """
        own = scheme_of(cls)
        if own is None:
            found = split_type(type_of_bytes(data))
            own = found[0] if found else _any_scheme()
        return cls(own.call("secret_key_from_bytes")(data))


class PublishingKey(SecretKey[P, E], Generic[P, E, U]):
    """A secret key that has a public one."""

    def public_key(self) -> U:
        """A key others can encrypt with.

        >>> secret.decrypt(secret.public_key().encrypt([1, 2, 3, 4]))
        array([1, 2, 3, 4])
        """
        found: U = PublicKey(self._core.public_key())  # type: ignore[assignment]  # of its scheme
        return found


def _any_scheme() -> Scheme:
    """One whose readers refuse what is of none, saying why."""
    return next(iter(SCHEMES.values()))


def _require_bytes(what: str, given: Any) -> None:
    """Raises DtypeError, ParameterError for what is neither None nor a number of bytes."""
    if given is not None and not is_whole(given):
        raise _core.DtypeError(f"{what} is a number of bytes, not {described(given)}")
    if given is not None and given < 0:
        raise _core.ParameterError(f"{what} counts bytes, not {described(given)}")


class Server(Shown, Generic[T]):
    """A party that computes: it holds evaluation keys and no secret. Of any scheme.

    `limit` is how many bytes of memory one tensor from a file or message may take (`Tensor.nbytes`: seeds expanded; an axis of
    length zero counts as one); None: as many as the device has left at the time. What the file holds is within it too.
    `costs` is what a computation may take that is asked for by `compute`; None: whatever it takes.
    `compose_rotations`: whether rotations without a key of their own are composed of those that have one, by the fewest key switches;
    True: of 32 at most, a number: of so many at most. It holds for all that is computed on this server's tensors (sums over slots,
    matrices on slots, networks). False: such a rotation is a MissingKeyError. `EvaluationKeys.composition` tells what a rotation takes.

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
        costs: Costs | None = None,
        compose_rotations: bool | int = False,
    ) -> None:
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"a server is made from evaluation keys, not {type(keys).__name__}")
        _require_bytes("a limit", limit)
        if isinstance(keys, SwitchKeys):
            keys = keys._composing(compose_rotations)
        elif switches_of(compose_rotations) > 1:
            raise _core.MismatchError(f"cannot compose rotations: keys of {keys._scheme.title} have none")
        self.keys: Any = keys  # of the scheme its user knows
        if costs is not None and not isinstance(costs, Costs):
            raise _core.DtypeError(f"what computations may take is hg.Costs(...), not {described(costs)}")
        self.limit = limit
        self.costs = costs
        log_device()
        logger.info("server of %r", keys)

    @property
    def parameters(self) -> Any:
        """The parameter set."""
        return self.keys.parameters

    def bind(self, tensor: T) -> T:
        """The tensor with this server's keys at hand. Raises MismatchError, WrongKeyError for a foreign one.

        >>> secret.decrypt(server.bind(secret.encrypt([1, 2, 3, 4])) ** 2)
        array([ 1,  4,  9, 16])
        """
        if not isinstance(tensor, Tensor):
            raise _core.DtypeError(f"a server binds tensors, not {type(tensor).__name__}")
        if tensor.parameters != self.keys.parameters:
            raise _core.MismatchError(
                f"the tensor and these keys are of different {tensor.parameters._differs_from(self.parameters)}"
            )
        if tensor.key_id and tensor.key_id != self.keys.id:
            raise _core.WrongKeyError(
                f"the tensor is of key {tensor.key_id[:8]}, this server's keys are of {self.keys.id[:8]}"
            )
        return type(tensor)(tensor._core, self.keys)

    def _allowed(self) -> int:
        """Bytes, as the engine counts them."""
        left: int = self.parameters.free_memory if self.limit is None else self.limit
        return min(left, WORD)

    def load(self, path: Any) -> T:
        """A tensor from a file, bound to the keys.

        Raises FormatError and its kinds, MismatchError, WrongKeyError; LimitError, before memory is taken, beyond the limit.

        >>> secret.encrypt([1, 2, 3, 4]).save("request.hg")
        >>> secret.decrypt(server.load("request.hg") * 2)
        array([2, 4, 6, 8])
        """
        return self._taken(self.keys._read("load_ciphertext", path_of(path), limit=self._allowed()))

    def from_bytes(self, data: Buffer) -> T:
        """A tensor from bytes, bound to the keys. Raises as `load`.

        >>> server.from_bytes(secret.encrypt([1, 2, 3, 4]).to_bytes()).shape
        ()
        """
        return self._taken(self.keys._read("ciphertext_from_bytes", data, limit=self._allowed()))

    def _from_coming(self, data: Buffer, arrived: Callable[[int], None]) -> T:
        """As `from_bytes`, of bytes that nobody changes once `arrived` has returned, called with how many of the first are wanted."""
        return self._taken(self.keys._read("ciphertext_from_coming", data, arrived, limit=self._allowed()))

    def _taken(self, tensor: T) -> T:
        bound = self.bind(tensor)
        logger.debug("read %r", bound)
        return bound

    def compute(self, function: Callable[..., R], *operands: Any) -> R:
        """``function(*operands)``, of tensors at this server, unless its forecast is beyond `costs`: then LimitError, before
        anything is computed; the operands are as they were. `function` is as `hg.forecast` takes it, a program too.

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
            self.costs.require(forecast(function, *operands))
        return function(*operands)

    def encode(self, values: Any, **options: Any) -> Any:
        """Plaintexts of these parameters: `hg.encode`.

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
    """Plaintexts of a parameter set's scheme, to add and to multiply by: as `hg.bfv.encode` or `hg.ckks.encode`, whose options
    it takes. Raises as they do, ParameterError for an option of another scheme, MismatchError where there are no plaintexts.

    >>> import heliograph as hg
    >>> hg.encode(hg.bfv.parameters(depth=1, plain_bits=16), [1, 2, 3])
    <BFV plaintext ()>
    """
    if not isinstance(parameters, Parameters):
        what = sets_of(s for s in SCHEMES.values() if s.core("Plaintext"))
        raise _core.DtypeError(f"values are encoded by {what}, not {type(parameters).__name__}")
    scheme = parameters._scheme
    kind: Any = Faced._classes.get(scheme.core("Plaintext"))
    if kind is None:
        raise _core.MismatchError(f"{scheme.title} has no plaintexts: there are {scheme.instead['encode']}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in kind._options:
            raise _core.ParameterError(
                f"{scheme.title} has no {described(name)} of plaintexts: their options are {', '.join(kind._options)}"
            )
    return kind._encoded(parameters, values, **given)


@overload
def load(path: Any, *, memory: int | None = None) -> Tensor[Any, Any] | PublicKey[Any] | EvaluationKeys[Any, Any]: ...


@overload
def load(path: Any, kind: type[L], *, memory: int | None = None) -> L: ...


def load(path: Any, kind: type[Any] = Faced, *, memory: int | None = None) -> Any:
    """What a file holds, of any scheme: a tensor, a public key, evaluation keys. Secret keys only by `SecretKey.load`.

    `kind`, such as `hg.ckks.Tensor`, is what it must be: type checkers know it then. `memory` is how many bytes of the machine's
    memory it may take; None: any. Evaluation keys that take more (`nbytes`) stay in their file, which is kept open: each key is
    read when it is used, checked again, and leaves when others need the room. Results have the same bits. Of TFHE's keys, which
    every bootstrap needs whole, only what is kept beside the prepared ones stays there.

    Raises FormatError and its kinds, also for what is of another kind, and at a key's use DamagedFileError where the file was
    changed since; LimitError for a tensor or a public key that takes more memory, for less than one key needs (1.5 times
    `parameters.switch_key_bytes`), and for a computation that uses more keys at once.

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


def from_bytes(data: Buffer, kind: type[Any] = Faced) -> Any:
    """What `to_bytes` gave, of any scheme, as `load` reads files: from bytes, a bytearray, a memoryview, a mapped file.

    Bytes that nobody can change are read without a copy. Raises DtypeError for what holds no bytes in a row, FormatError and its
    kinds. Secret keys only by `SecretKey.from_secret_bytes`.

    >>> hg.from_bytes(x.to_bytes()).shape, hg.from_bytes(bytearray(server.keys.to_bytes())).id == secret.id
    ((2,), True)
    """
    return _read(data, type_of_bytes(data) or "", "from_bytes", "this", kind)


def _read(source: Any, said: str, way: str, name: str, kind: type[Any], *options: int) -> Any:
    """An object by what its source says it is; `way`: "load" or "from_bytes", `name` for errors."""
    if said == "heliograph.program":
        raise _core.FormatError(f"{name} holds a recorded program, which hg.Program.{way} reads")
    if said == "heliograph.sealed-model":
        raise _core.FormatError(f"{name} holds a sealed model, which hg.SealedModel.load reads")
    scheme, what = split_type(said) or (_any_scheme(), "ciphertext")
    if what not in ("ciphertext", "public-key", "evaluation-keys"):
        secret = "SecretKey.load" if way == "load" else "SecretKey.from_secret_bytes"
        raise _core.FormatError(f"{name} holds a {printable(what)}; secret keys are read by {secret} alone")
    core = scheme.reader(what, "load_{}" if way == "load" else "{}_from_bytes")(source, *options)
    found = Faced._classes[type(core)](core)
    if not isinstance(found, kind):
        raise _core.FormatError(f"{name} holds a {what} of {scheme.title}, no {kind.__module__}.{kind.__qualname__}")
    return found


REDUCERS["tensor"] = lambda x: (from_bytes, (x.to_bytes(),))
