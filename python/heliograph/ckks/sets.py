"""Choice of parameter sets of CKKS: by name, by need, by numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import (
    complexes,
    count_of,
    described,
    flag,
    real,
    require_alone,
    set_name,
    word_size_of,
)
from heliograph.ckks.keys import SecretKey
from heliograph.ckks.parameters import BOOTSTRAPPING, Parameters

#: Defaults of bootstrapping sets by numbers: log2 of the scale inside the bootstrap, by word size; number of levels below
#: the bootstrap.
_TOP_SCALES, _ENTRY = {64: 49.9, 32: 59.2}, 3
#: Versions whose rules for choosing sets are available, the default first.
_VERSIONS = ("0.3", "0.2")


def parameters(
    name: str | None = None,
    *,
    depth: int | None = None,
    precision: int | None = None,
    integer_bits: int | None = None,
    bound: float | None = None,
    slots: int = 0,
    repeat: bool = True,
    like: Any = None,
    n: int | None = None,
    levels: int | None = None,
    log_scale: float | None = None,
    base_bits: int | None = None,
    special: int | None = None,
    word_size: int = 64,
    bootstrap: bool = False,
    insecure: bool = False,
    version: str | None = None,
) -> Parameters[SecretKey]:
    """Returns a CKKS parameter set, chosen in one of three ways.

    - By name: ``parameters("n16-l24")``; the suffix ``/w32`` selects 32-bit words.
    - By need: ``parameters(depth=10, precision=30)`` is the smallest 128-bit set with at least `slots` slots for `depth`
      successive multiplications. Results are correct to `precision` bits (30) after the binary point.
    - By numbers: ``parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2)`` has levels of `log_scale` bits
      above a base of `base_bits`, and `special` primes for key switching.

    With ``bootstrap=True`` the set supports `hg.ckks.bootstrap`, and `depth` counts successive multiplications between two
    bootstraps:

    - By need, the result is a named set. The defaults are `precision` 20 and `integer_bits` 9; a `precision` above 20 takes
      two iterations and leaves 2 integer bits. Here `precision` is that of the mean error of values up to 1; the largest
      error among many values is 3 to 4 bits worse, and `Parameters.bootstrapping_precision` bounds it.
    - By numbers, the arguments are `n`, `depth` and `log_scale`.
    - Few `slots`, a power of two, make bootstraps faster: a complex tensor, or a pair of real ones, costs as much as one
      real tensor.

    Room and inputs:

    - Results up to `Parameters.room` fit the lowest level. A set by need has the largest room up to 2^41 that its N, primes
      and digits allow. If `precision` is below 22 and the room below 2^26, each level has one more prime, unless N would
      grow. For a `precision` of at least 22 and a room below 2^30, the digits differ: switching keys are up to twice as
      large, ciphertexts are not.
    - `integer_bits`: the room is at least 2^`integer_bits`, and the set has no additional prime for more room.
    - `bound`: largest magnitude of inputs, unless a call of `encrypt` passes its own bound. The bound is public.
    - `like`: clear values, as an array. The default bound is then the next power of two above twice their largest magnitude,
      and the default of `slots` is the length of their last axis. Bound and slots are public.
    - `repeat`: a power of two of `slots` repeats through the N/2 places, and rotations are cyclic over the slots. With
      ``repeat=False`` zeros follow the values, and rotations are cyclic over all N/2 places. Small vectors then have up to
      4.5 bits more room, and decryption detects by the zeros whether a result exceeded the room.
    - `version`: ``"0.2"`` selects the numbers that Heliograph 0.2 chose, ``"0.3"`` the present numbers. Tensors of sets
      with different numbers do not mix.

    Raises ParameterError if no such set exists, SecurityError below 128 bits without ``insecure=True``.

    >>> hg.ckks.parameters("n14-l8").levels
    8
    >>> hg.ckks.parameters(depth=3, precision=30, slots=1000).n
    16384
    >>> hg.ckks.parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2).security
    '128-bit'
    >>> hg.ckks.parameters(depth=12, precision=20, bootstrap=True)  # doctest: +ELLIPSIS
    <CKKS parameters n16-b13: N=2^16, log q 1194, 16 multiplications (13 after a bootstrap), ..., 128-bit, w64>
    >>> hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True).bootstrapping_level
    4
    >>> hg.ckks.parameters(depth=9, bootstrap=True, slots=512).period
    512
    >>> hg.ckks.parameters(depth=2, slots=4).period, hg.ckks.parameters(depth=2, slots=4, repeat=False).period
    (4, 4096)
    >>> measured = hg.ckks.parameters(depth=2, like=[171.3, 180.0, 165.2])
    >>> measured.bound, measured.slots
    (512.0, 3)
    >>> old = hg.ckks.parameters(depth=1, precision=20, version="0.2")
    >>> old.room < 2**12, hg.ckks.parameters(depth=1, precision=20).room > 2**40
    (True, True)
    """
    arguments: dict[str, Any] = {"n": n, "levels": levels, "precision": precision, "integer_bits": integer_bits}
    arguments |= {"log_scale": log_scale, "base_bits": base_bits, "special": special, "depth": depth}
    insecure, bootstrap = flag(insecure, "insecure"), flag(bootstrap, "bootstrap")
    request = _Request(
        depth=None if depth is None else count_of(depth, "depth"),
        n=None if n is None else count_of(n, "n"),
        levels=None if levels is None else count_of(levels, "levels"),
        precision=count_of((20 if bootstrap else 30) if precision is None else precision, "precision"),
        integer_bits=None if integer_bits is None else count_of(integer_bits, "integer_bits"),
        repeat=flag(repeat, "repeat"),
        version=_version(version),
        slots=count_of(slots, "slots"),
        base_bits=count_of(50 if base_bits is None else base_bits, "base_bits"),
        special=count_of(1 if special is None else special, "special"),
        log_scale=_log_scale(40 if log_scale is None else log_scale),
        word_size=word_size_of(word_size),
        insecure=insecure,
        set_arguments=frozenset(argument for argument, value in arguments.items() if value is not None),
    )
    limit, width = _inputs(bound, like)
    if name is not None:
        return _of(_by_name(name, request, bootstrap), width, limit)
    request = dataclasses.replace(request, slots=request.slots or width)
    if bootstrap:
        return _of(_with_bootstrapping(request, limit), width, limit)
    if request.n is not None and request.levels is not None:
        return _of(_by_numbers(request, request.n, request.levels), width, limit)
    return _of(_by_need(request, limit), width, limit)


@dataclasses.dataclass(frozen=True)
class _Request:
    """Checked arguments of `parameters`, with their defaults. `set_arguments` names the arguments that the caller passed."""

    depth: int | None
    n: int | None
    levels: int | None
    precision: int
    integer_bits: int | None
    repeat: bool
    version: str
    slots: int
    base_bits: int
    special: int
    log_scale: float
    word_size: int
    insecure: bool
    set_arguments: frozenset[str]

    def refuse(self, what: str, *arguments: str) -> None:
        """Raises ParameterError if the caller passed one of these arguments, which do not apply to `what`."""
        require_alone(what, **{argument: argument in self.set_arguments for argument in arguments})


def _by_name(name: str, request: _Request, bootstrap: bool) -> Any:
    """Returns the spec of a named set. Raises ParameterError for further options."""
    passed = {argument: argument in request.set_arguments for argument in ("n", "levels", "depth")}
    full_name = set_name(
        name, request.word_size, **passed, slots=request.slots, bootstrap=bootstrap, repeat=not request.repeat
    )
    return _core.ckks.named_spec(full_name, request.insecure)


def _with_bootstrapping(request: _Request, limit: float) -> Any:
    """Returns the spec of a set with bootstrapping for inputs up to `limit`, by need or by `n`. Raises ParameterError."""
    if request.depth is None:
        raise _core.ParameterError(
            "parameters with bootstrap=True needs a depth, the number of successive multiplications between two bootstraps"
        )
    word_size = request.word_size
    request.refuse("a set with bootstrapping", "levels", "base_bits", "special")
    if request.n is not None:
        request.refuse("a set with bootstrapping by n", "precision", "integer_bits")
        spec = _core.ckks.make_bootstrapping_spec(
            request.n, request.depth, request.log_scale, _TOP_SCALES[word_size], _ENTRY, word_size, request.insecure
        )
    else:
        request.refuse("a set with bootstrapping by depth and precision", "log_scale", "base_bits", "special")
        bits = request.integer_bits
        if bits is None:
            bits = max(9, math.ceil(math.log2(limit)) if limit else 0)
        name = _bootstrapping_name(request.depth, request.precision, bits, word_size)
        spec = _core.ckks.named_spec(name, request.insecure)
    spec.slots, spec.repeat = request.slots, request.repeat
    return spec


def _by_numbers(request: _Request, n: int, levels: int) -> Any:
    """Returns the spec of a set by `n` and `levels`. Raises ParameterError, SecurityError."""
    request.refuse("a set by n and levels", "depth")
    spec = _core.ckks.make_spec(
        n, levels, request.log_scale, request.base_bits, request.special, request.word_size, request.slots, request.insecure
    )
    spec.repeat = request.repeat
    return spec


def _by_need(request: _Request, limit: float) -> Any:
    """Returns the spec of the smallest set with `depth` and `precision` for inputs up to `limit`. Raises ParameterError."""
    if request.depth is None:
        raise _core.ParameterError("parameters needs a name, or depth and precision, or n and levels")
    request.refuse("a set by depth and precision", "n", "levels")
    return _core.ckks.choose(
        request.depth,
        request.precision,
        request.integer_bits,
        request.slots,
        request.word_size,
        request.repeat,
        limit,
        request.version,
    )


def _log_scale(value: Any) -> float:
    """Returns the bits of a scale. Raises ParameterError."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 1 <= value <= 1024:
        raise _core.ParameterError(f"log_scale must be a number of bits from 1 to 1024, not {described(value)}")
    return float(value)


def _version(version: Any) -> str:
    """Returns the version whose rules choose a set; empty for the default. Raises ParameterError."""
    if version is None:
        return ""
    if not isinstance(version, str) or version not in _VERSIONS:
        versions = " and ".join(f'"{v}"' for v in sorted(_VERSIONS))
        raise _core.ParameterError(f"version must be one of {versions}, whose rules choose a set, not {described(version)}")
    return version


def _inputs(bound: Any, like: Any) -> tuple[float, int]:
    """Returns the bound on inputs (0: the default), and the number of values in a ciphertext (0 without `like`)."""
    limit = 0.0
    if bound is not None:
        limit = real(bound, "the bound on inputs")
        if not 0 < limit < math.inf:
            raise _core.ParameterError(f"the bound on inputs must be a finite number above 0, not {described(bound)}")
    if like is None:
        return limit, 0
    values, _ = complexes(like, "the values of `like`")
    if values.ndim == 0 or values.size == 0:
        raise _core.ShapeError(f"`like` must have at least one axis and one value, not shape {values.shape}")
    largest = float(np.abs(values).max())
    if limit == 0:
        limit = 2.0 ** math.ceil(math.log2(2 * largest)) if largest > 2.0**-1000 else 1.0
    elif largest > limit:
        raise _core.ParameterError(
            f"the values of `like` must be within the bound on inputs, {limit:g}; they reach {largest:g}"
        )
    return limit, values.shape[-1]


def _of(spec: Any, width: int, bound: float) -> Parameters[SecretKey]:
    """Returns the set of a spec and a bound on inputs. Raises ParameterError if the set has fewer slots than requested."""
    if spec.slots > spec.n // 2:
        raise _core.ParameterError(
            f"slots must be at most {spec.n // 2:,}, the slots at N=2^{spec.n.bit_length() - 1}, not {spec.slots:,}"
        )
    if width > (spec.slots or spec.n // 2):
        raise _core.ParameterError(
            f"the last axis of `like` has {width:,} values, more than the {spec.slots or spec.n // 2:,} slots of this set"
        )
    if bound:
        spec.bound = bound
    return Parameters(_core.ckks.Parameters(spec))


def _bootstrapping_name(depth: int, precision: int, integer_bits: int, word_size: int) -> str:
    """Returns the cheapest named set with bootstrapping that meets the requirements. Raises ParameterError that lists the
    sets.

    A w32 set is chosen if `word_size` is 32, or if no set of 64-bit words is as precise.
    """
    for name, (between, after, before) in BOOTSTRAPPING.items():
        if word_size == 32 and not name.endswith("/w32"):
            continue
        if depth <= between and precision <= after and integer_bits <= before:
            return name
    there = ", ".join(f"{name} ({between}; {after}; {before})" for name, (between, after, before) in BOOTSTRAPPING.items())
    raise _core.ParameterError(
        f"no named set with bootstrapping has {depth} multiplications after it, a precision of {precision} bits and "
        f"{integer_bits} bits before the point; the named sets are {there}. Pass n, depth and log_scale for others"
    )


def named() -> list[str]:
    """Returns the names of the named sets.

    A name holds log2 N after "n" and either the primes of the top level after "l" or the multiplications after a bootstrap
    after "b".

    >>> named = hg.ckks.named()
    >>> named[:6]
    ['n13-l4', 'n14-l8', 'n15-l20', 'n16-l24', 'n16-l28', 'n16-l41']
    >>> named[6:]
    ['n15-b4', 'n16-b9', 'n16-b10-h', 'n16-b13', 'n16-b18', 'n16-b11-c', 'n16-b11/w32', 'n16-b13/w32']
    """
    return _core.ckks.named_specs()
