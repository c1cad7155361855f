"""What the shared classes know of a scheme: its description. None of them names one.

A scheme is a package beside this module: `scheme.py` says what it has, and its classes take the shared ones' place for the
engine's objects of that scheme. So ``Tensor(core)`` is a tensor of whichever scheme `core` is of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar

from heliograph import _core
from heliograph._arrays import Buffer, path_of
from heliograph._html import Shown
from heliograph._json import read_json


@dataclass(frozen=True)
class Bare:
    """A file of a scheme's that holds a parameter set and nothing else: its kind, fields of its header, shapes of its arrays."""

    kind: str
    fields: Mapping[str, Any]
    arrays: Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Scheme:
    """A scheme's names, and what it has in place of functions that are not its."""

    key: str  #: as recorded programs call it
    title: str  #: as people do
    module: str  #: where its sets are made: hg.<module>
    prefix: str  #: of the engine's functions
    files: tuple[str, ...]  #: in types of files: heliograph.<one of them>.ciphertext
    instead: Mapping[str, str]
    bare: Bare  #: the least object that has a parameter set

    def call(self, name: str) -> Callable[..., Any]:
        """The engine's function of that name for this scheme."""
        found: Callable[..., Any] = getattr(_core, self.prefix + name)
        return found

    def reader(self, what: str, call: str) -> Callable[..., Any]:
        """The engine's function that reads a kind of object ("public-key"). Raises FormatError where the scheme has no such kind."""
        found: Callable[..., Any] | None = getattr(_core, self.prefix + call.format(what.replace("-", "_")), None)
        if found is None:
            raise _core.FormatError(f"this says it is a {what} of {self.title}, which has none")
        return found

    def core(self, name: str) -> Any:
        """The engine's class of that name for this scheme; None where it has none."""
        return getattr(_core, self.prefix.rstrip("_").capitalize() + name, None)


#: Bytes of a file's header at most (docs/format.md). Longer ones are not parsed: anybody can write them.
_LONGEST_HEADER = 1 << 20

#: All of them, by key.
SCHEMES: dict[str, Scheme] = {}


def described_scheme(
    key: str,
    title: str,
    instead: Mapping[str, str],
    bare: Bare,
    *,
    module: str = "",
    prefix: str | None = None,
    files: Sequence[str] = (),
) -> Scheme:
    """A scheme, known from now on. All its names are its key's unless they are given."""
    prefix = f"{key}_" if prefix is None else prefix
    SCHEMES[key] = Scheme(key, title, module or key, prefix, tuple(files) or (key,), instead, bare)
    return SCHEMES[key]


#: What finds a scheme's sets for a computation, by the scheme's key.
CHOOSERS: dict[str, Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


def chooser(scheme: Scheme) -> Callable[[F], F]:
    """Decorates a scheme's part of `hg.parameters_for`: called with the function, the example and the name asked for."""

    def known(function: F) -> F:
        CHOOSERS[scheme.key] = function
        return function

    return known


def sets_of(schemes: Iterable[Scheme]) -> str:
    """Their classes of parameters, for an error: "hg.ckks.Parameters"."""
    return " or ".join(f"hg.{scheme.module}.Parameters" for scheme in schemes)


class Faced(Shown):
    """An object over one of the engine's: of the class that is declared for that one (``class X(Shared, core=_core.X)``)."""

    __slots__ = ("_core",)
    _classes: ClassVar[dict[type, type]] = {}
    _scheme: ClassVar[Scheme]

    def __init_subclass__(cls, core: type | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if core is not None:
            Faced._classes[core] = cls

    def __new__(cls, core: Any = None, *_: Any, **__: Any) -> Any:
        known = Faced._classes.get(type(core))
        declared = scheme_of(cls) is None or cls in Faced._classes.values()  # `parameters_for` has kinds of its own
        if core is not None and declared and (known is None or not issubclass(known, cls)):
            raise _core.DtypeError(
                f"a {cls.__name__} is not made of {type(core).__name__}: sets are made by parameters(...), secret keys by "
                "SecretKey.generate, other keys, tensors and plaintexts by keys and servers"
            )
        return object.__new__(cls if known is None or scheme_of(cls) is not None else known)

    def __reduce__(self) -> Any:
        """For pickle. Raises DtypeError for what no file holds."""
        kind = type(self).__name__
        raise _core.DtypeError(
            f"cannot pickle a {kind} of {self._scheme.title}: no file holds one; make it anew from clear values"
        )

    def __copy__(self) -> Self:
        return self  # it does not change

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class Told(Generic[V]):
    """What `told` gives, to type checkers: a property of that type."""

    def __get__(self, instance: object, owner: Any) -> V:
        raise NotImplementedError


def told(name: str, kind: Callable[[Any], V], doc: str) -> Told[V]:
    """A property that the engine knows: its object's attribute of that name (or of an attribute: "spec.n"), as a `kind`."""
    find = attrgetter(f"_core.{name}")
    made: Any = property(lambda shown: kind(find(shown)), doc=doc)
    return made  # type: ignore[no-any-return]


def scheme_of(kind: Any) -> Scheme | None:
    """A class's scheme, or an object's; None of what the schemes share."""
    found: Scheme | None = getattr(kind, "_scheme", None)
    return found


def type_of_file(path: Any) -> str:
    """What a file says it holds: "heliograph.bfv.ciphertext". Raises FormatError and its kinds."""
    found: str = read_json(_core.inspect(path_of(path)), longest=1 << 28)["type"]
    return found


def type_of_bytes(data: Buffer) -> str | None:
    """The same of a file's bytes (docs/format.md); None where they are no file: readers say why."""
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):  # no buffer, or an array of dates
        return None
    length = int.from_bytes(view[16:24], "little")
    if len(view) < 32 or length > min(len(view) - 32, _LONGEST_HEADER):
        return None
    try:
        found = read_json(bytes(view[32 : 32 + length]))["type"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def split_type(found: str | None) -> tuple[Scheme, str] | None:
    """Scheme and kind of an object ("ciphertext") by its type in a file; None for what is of no scheme."""
    parts = (found or "").split(".", 2)
    own = [s for s in SCHEMES.values() if len(parts) == 3 and parts[0] == "heliograph" and parts[1] in s.files]
    return (own[0], parts[2]) if own else None
