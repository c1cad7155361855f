"""Descriptions of schemes. The shared classes depend on these descriptions and name no scheme.

Each scheme is a package beside this module. The package's `scheme.py` describes the scheme, and each of its classes is
registered for one class of the engine's objects. So ``Tensor(core)`` makes a tensor of the scheme of `core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar

from heliograph import _core
from heliograph._common.arguments import Buffer, path_of
from heliograph._common.html import HtmlRepr
from heliograph._common.json import read_json


@dataclass(frozen=True)
class Scheme:
    """The names of a scheme, and its alternatives to functions that it lacks."""

    key: str  #: name in recorded programs
    title: str  #: name in messages
    module: str  #: module of its parameter sets: hg.<module>
    core: Any  #: the engine's submodule
    files: tuple[str, ...]  #: names in file types: heliograph.<name>.ciphertext
    instead: Mapping[str, str]  #: a function that the scheme lacks: the alternative to name in errors
    readers: Mapping[str, Any]  #: the engine's classes by the kinds of objects in files

    def reader(self, kind: str) -> Any:
        """Returns the engine's class of a kind of object ("public-key"), with `load` and `from_bytes`.

        Raises FormatError if the scheme has no such class.
        """
        if kind not in self.readers:
            raise _core.FormatError(f"the data claims to be a {kind} of {self.title}, which has none")
        return self.readers[kind]


#: All schemes, by key.
SCHEMES: dict[str, Scheme] = {}


def described_scheme(
    key: str,
    title: str,
    core: Any,
    instead: Mapping[str, str],
    readers: Mapping[str, Any],
    *,
    module: str = "",
    files: Sequence[str] = (),
) -> Scheme:
    """Registers and returns a scheme. Names that are not given are derived from `key`."""
    SCHEMES[key] = Scheme(key, title, module or key, core, tuple(files) or (key,), instead, readers)
    return SCHEMES[key]


#: Parameter searches of `hg.parameters_for`, by the scheme's key.
CHOOSERS: dict[str, Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


def chooser(scheme: Scheme) -> Callable[[F], F]:
    """Registers the decorated function as the scheme's search for `hg.parameters_for`:
    f(function, example, scheme, **options).
    """

    def register(function: F) -> F:
        CHOOSERS[scheme.key] = function
        return function

    return register


def sets_of(schemes: Iterable[Scheme]) -> str:
    """Returns the names of the schemes' classes of parameters, for an error: "hg.ckks.Parameters"."""
    return " or ".join(f"hg.{scheme.module}.Parameters" for scheme in schemes)


class EngineObject(HtmlRepr):
    """A wrapper of an engine object; each wrapper class is registered for one engine class (``class X(Shared,
    core=_core.ckks.X)``).

    """

    __slots__ = ("_core",)
    _classes: ClassVar[dict[type, type]] = {}
    _scheme: ClassVar[Scheme]

    def __init_subclass__(cls, core: type | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if core is not None:
            EngineObject._classes[core] = cls

    def __new__(cls, core: Any = None, *_: Any, **__: Any) -> Any:
        registered = EngineObject._classes.get(type(core))
        declared = (
            scheme_of(cls) is None or cls in EngineObject._classes.values()
        )  # false for the trial classes of `parameters_for`
        if core is not None and declared and (registered is None or not issubclass(registered, cls)):
            raise _core.DtypeError(
                f"a {cls.__name__} is not made of {type(core).__name__}: parameters(...) makes parameter sets, "
                "SecretKey.generate secret keys; keys and servers make other keys, tensors and plaintexts"
            )
        return object.__new__(cls if registered is None or scheme_of(cls) is not None else registered)

    def __reduce__(self) -> Any:
        """Refuses pickle. Raises DtypeError: this class has no file format."""
        kind = type(self).__name__
        raise _core.DtypeError(
            f"cannot pickle a {kind} of {self._scheme.title}: it has no file format; make it again from clear values"
        )

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class EngineProperty(Generic[V]):
    """Return type of `engine_property` for type checkers: a property of type V."""

    def __get__(self, instance: object, owner: Any) -> V:
        raise NotImplementedError


def engine_property(name: str, kind: Callable[[Any], V], doc: str) -> EngineProperty[V]:
    """Returns a property that reads the engine object's attribute `name` (nested: "spec.n") and converts it by `kind`."""
    find = attrgetter(f"_core.{name}")
    descriptor: Any = property(lambda wrapper: kind(find(wrapper)), doc=doc)
    return descriptor  # type: ignore[no-any-return]


def scheme_of(kind: Any) -> Scheme | None:
    """Returns the scheme of a class or an object; None for classes that schemes share."""
    scheme: Scheme | None = getattr(kind, "_scheme", None)
    return scheme


def type_of_file(path: Any) -> str:
    """Returns the type in a file's header: "heliograph.bfv.ciphertext". Raises FormatError and its subclasses."""
    file_type: str = read_json(_core.container.inspect(path_of(path)), longest=1 << 28)["type"]
    return file_type


def type_of_bytes(data: Buffer) -> str | None:
    """Returns the type in the header of a file's bytes (docs/format.md); None if the bytes are not a file; the readers then
    raise the error.
    """
    try:
        return _core.container.type_of(data)
    except _core.DtypeError:  # not a buffer, or a buffer of items other than bytes
        return None


def split_type(file_type: str | None) -> tuple[Scheme, str] | None:
    """Splits a file type into the scheme and the kind of object ("ciphertext"); returns None if the type belongs to no
    scheme."""
    parts = (file_type or "").split(".", 2)
    own = [s for s in SCHEMES.values() if len(parts) == 3 and parts[0] == "heliograph" and parts[1] in s.files]
    return (own[0], parts[2]) if own else None
