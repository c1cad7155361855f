"""Finds the evaluation keys that computations need, for `SecretKey.evaluation_keys(for_=...)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heliograph import _core
from heliograph._common import functions
from heliograph._common.arguments import described
from heliograph._common.parameters import Parameters
from heliograph._common.tensor import Tensor

#: Functions with an axis argument. If a purpose gives no axis, the sum is over slots, since sums over other axes need no
#: keys.
_ALONG_SLOTS = [found for name in ("sum", "mean") if (found := getattr(functions, name, None)) is not None]

#: For each scheme: the generator whose powers are rotations, and the argument for the column exchange or conjugation.
TURNS = {"exact": (3, "columns"), "ckks": (5, "conjugate")}

#: The number of a rotation key for a level is the level, shifted by these bits, and its automorphism.
LEVEL_BITS = 32

#: A trial run, f(function, examples), with None for one ciphertext. Returns the arguments of `evaluation_keys`.
Trial = Callable[[Callable[..., Any], Sequence[Any] | None], dict[str, Any]]


def needs_of(purposes: Any, parameters: Any, trial: Trial) -> tuple[dict[str, Any], list[Any]]:
    """Returns the arguments of `evaluation_keys` for all purposes together, and the programs of instructions among the
    purposes.

    Raises DtypeError for an invalid purpose, MismatchError for a purpose of another parameter set, and the errors of the
    purpose's function.
    """
    several = list(purposes) if isinstance(purposes, (list, set, frozenset)) else [purposes]
    if not several:
        raise _core.ParameterError("for_ must have at least one purpose, not an empty list; leave it out for none")
    needs: dict[str, Any] = {}
    cinnamon = []
    for purpose in several:
        if isinstance(getattr(purpose, "_core", None), _core.cinnamon.Program):
            cinnamon.append(purpose)
            continue
        for name, need in _needs_of_one(purpose, parameters, trial).items():
            needs[name] = merged_needs(needs.get(name), need)
    return needs, cinnamon


def merged_needs(a: Any, b: Any) -> Any:
    """Returns the union of two values of one argument of `evaluation_keys`: flags, lists of steps, or steps by level.

    `a` is None if the argument is absent.
    """
    if isinstance(b, bool):
        return bool(a) or b
    if isinstance(b, dict):
        have = a or {}
        return {level: sorted({*have.get(level, ()), *b.get(level, ())}) for level in sorted({*have, *b})}
    return sorted({*(a or ()), *b})


def _needs_of_one(purpose: Any, parameters: Any, trial: Trial) -> dict[str, Any]:
    if hasattr(purpose, "_last_recording"):  # a program
        return _of_recording(purpose, parameters)
    needs = getattr(purpose, "needs", None)
    if isinstance(needs, dict):
        own = purpose if isinstance(purpose, Parameters) else getattr(purpose, "parameters", None)
        if isinstance(own, Parameters) and own != parameters:
            raise _core.MismatchError(
                f"cannot make keys for {_purpose_text(purpose)}: its parameters must be the key's, not different "
                f"{own._differs_from(parameters)}"
            )
        if not needs and isinstance(purpose, Parameters):
            raise _core.ParameterError(
                "cannot make keys for this parameter set: it must come from hg.parameters_for, which records the keys of "
                "its function; pass the function instead"
            )
        return dict(needs)
    if isinstance(purpose, tuple) and len(purpose) > 1 and callable(purpose[0]):
        function, *examples = purpose
        if any(callable(example) for example in examples):
            raise _core.DtypeError("cannot make keys for a tuple of functions: several purposes must be a list, for_=[...]")
        function = function.function if hasattr(function, "_last_recording") else function
        return _tried(function, examples, parameters, trial)
    if callable(purpose) and not isinstance(purpose, type):
        return _tried(purpose, None, parameters, trial)
    raise _core.DtypeError(
        f"cannot make keys for {described(purpose)}: a purpose must be a function of one tensor, (function, example, ...), "
        "a program, or a matrix, layout or model with `needs`"
    )


def _tried(function: Callable[..., Any], examples: Sequence[Any] | None, parameters: Any, trial: Trial) -> dict[str, Any]:
    along = examples is None and hasattr(parameters, "slots") and any(function is f for f in _ALONG_SLOTS)
    try:
        return trial((lambda x: function(x, axis="slots")) if along else function, examples)
    except TypeError as error:
        count = 1 if examples is None else len(examples)
        raise _core.DtypeError(
            f"cannot make keys for {_purpose_text(function)}: it must be a function of {count} tensor{'s' * (count > 1)}, "
            f"but the call raises {type(error).__name__}: {error}. Bind other arguments by functools.partial or a lambda; "
            "for more tensors pass (function, example, ...)"
        ) from error


def _purpose_text(purpose: Any) -> str:
    name = getattr(purpose, "__name__", None)
    return name if isinstance(name, str) else described(purpose)


def _of_recording(program: Any, parameters: Any) -> dict[str, Any]:
    """Returns the arguments of `evaluation_keys` for a program's last used recording. Raises MismatchError."""
    core, _ = program._last_recording()
    operands = [Tensor(one) for one in core.operands]
    for one in operands:
        if one.parameters != parameters:
            raise _core.MismatchError(
                f"cannot make keys for this program: its parameters must be the key's, not different "
                f"{one.parameters._differs_from(parameters)}"
            )
    return recorded_needs(core.key_numbers, parameters._scheme.key, getattr(parameters, "n", 0))


def recorded_needs(numbers: Sequence[int], scheme: str, n: int) -> dict[str, Any]:
    """Returns the arguments of `evaluation_keys` for keys with these numbers (`RecordedProgram::key_numbers`)."""
    if scheme == "tfhe":
        return {}
    generator, other = TURNS[scheme]
    steps = {pow(generator, k, 2 * n): k for k in range(1, n // 2)}
    needs: dict[str, Any] = {"relinearize": 0 in numbers}
    rotations = [k for g, k in steps.items() if g in numbers]  # steps in the form in which evaluation keys list them
    if rotations:
        needs["rotations"] = sorted(rotations)
    if 2 * n - 1 in numbers:
        needs[other] = True
    levels = _of_levels(numbers, steps)
    if any(levels.values()):
        needs["level_rotations"] = levels
    if any(g not in (0, 2 * n - 1) and g not in steps and not g >> LEVEL_BITS for g in numbers):
        needs["bootstrap"] = True
    return needs


def _of_levels(numbers: Sequence[int], steps: dict[int, int]) -> dict[int, list[int]]:
    """Returns the steps of keys that were made for levels, by level. Raises MismatchError for conjugations at a level."""
    levels: dict[int, list[int]] = {}
    for number in numbers:
        level, galois = number >> LEVEL_BITS, number & ((1 << LEVEL_BITS) - 1)
        if not level or number >> 63:
            continue
        if galois not in steps:
            raise _core.MismatchError(
                "cannot make keys for this program: it has a conjugation by a key for a level; record it with keys that "
                "serve every level (conjugate=True without level=)"
            )
        levels.setdefault(level, []).append(steps[galois])
    return {level: sorted(some) for level, some in sorted(levels.items())}
