"""The evaluation keys that computations need: `SecretKey.evaluation_keys(for_=...)` makes these and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heliograph import _core, functions
from heliograph._arrays import described
from heliograph._parameters import Parameters
from heliograph._shapes import Tensor
from heliograph.recording import Program

#: Functions of every scheme that take an axis: without one they stand for the slots, because other axes need no keys.
_ALONG_SLOTS = [found for name in ("sum", "mean") if (found := getattr(functions, name, None)) is not None]

#: The generator whose powers are rotations, and the argument that asks for the exchange beside them, by scheme.
TURNS = {"exact": (3, "columns"), "ckks": (5, "conjugate")}

#: A trial run: a function of tensors and their examples, None for one ciphertext. Returns the arguments of `evaluation_keys`.
Trial = Callable[[Callable[..., Any], Sequence[Any] | None], dict[str, Any]]


def needs_of(purposes: Any, parameters: Any, trial: Trial) -> tuple[dict[str, Any], list[Any]]:
    """The arguments of `evaluation_keys` that make what several purposes need together, and the programs of instructions among them.
    Raises DtypeError for what is no purpose, MismatchError for one of another parameter set, and what its function raises.
    """
    several = list(purposes) if isinstance(purposes, (list, set, frozenset)) else [purposes]
    if not several:
        raise _core.ParameterError(
            "cannot make keys for nothing: for_ must name at least one purpose; leave it out for none"
        )
    needs: dict[str, Any] = {}
    cinnamon = []
    for purpose in several:
        if isinstance(getattr(purpose, "_core", None), _core.CinnamonProgram):
            cinnamon.append(purpose)
            continue
        for name, wanted in _needs_of_one(purpose, parameters, trial).items():
            if isinstance(wanted, bool):
                needs[name] = needs.get(name, False) or wanted
            else:
                needs[name] = sorted({*needs.get(name, ()), *wanted})
    return needs, cinnamon


def _needs_of_one(purpose: Any, parameters: Any, trial: Trial) -> dict[str, Any]:
    if isinstance(purpose, Program):
        return _of_recording(purpose, parameters)
    needs = getattr(purpose, "needs", None)
    if isinstance(needs, dict):
        own = purpose if isinstance(purpose, Parameters) else getattr(purpose, "parameters", None)
        if isinstance(own, Parameters) and own != parameters:
            raise _core.MismatchError(
                f"cannot make keys for {_named(purpose)}: its parameters must be the key's, which are different "
                f"{own._differs_from(parameters)}"
            )
        if not needs and isinstance(purpose, Parameters):
            raise _core.ParameterError(
                "cannot make keys for this parameter set: hg.parameters_for must have found it, and nothing says what it is for; give "
                "the function"
            )
        return dict(needs)
    if isinstance(purpose, tuple) and len(purpose) > 1 and callable(purpose[0]):
        function, *examples = purpose
        if any(callable(example) for example in examples):
            raise _core.DtypeError("cannot make keys for a tuple of functions: several purposes must be a list, for_=[...]")
        function = function.function if isinstance(function, Program) else function
        return _tried(function, examples, parameters, trial)
    if callable(purpose) and not isinstance(purpose, type):
        return _tried(purpose, None, parameters, trial)
    raise _core.DtypeError(
        f"cannot make keys for {described(purpose)}: a purpose must be a function of one tensor, (function, example, ...), a program, or a "
        "matrix, layout or model that has `needs`"
    )


def _tried(function: Callable[..., Any], examples: Sequence[Any] | None, parameters: Any, trial: Trial) -> dict[str, Any]:
    along = examples is None and hasattr(parameters, "slots") and any(function is f for f in _ALONG_SLOTS)
    try:
        return trial((lambda x: function(x, axis="slots")) if along else function, examples)
    except TypeError as error:
        count = 1 if examples is None else len(examples)
        raise _core.DtypeError(
            f"cannot make keys for {_named(function)}: it must be a function of {count} tensor{'s' * (count > 1)}, and called so it "
            f"raises {type(error).__name__}: {error}; give the other arguments by functools.partial or a lambda, more tensors as "
            "(function, example, ...)"
        ) from error


def _named(purpose: Any) -> str:
    name = getattr(purpose, "__name__", None)
    return name if isinstance(name, str) else described(purpose)


def _of_recording(program: Program, parameters: Any) -> dict[str, Any]:
    """What the recording that was used last needs."""
    core, _ = program._last_recording()
    taken = [Tensor(one) for one in core.taken]
    for one in taken:
        if one.parameters != parameters:
            raise _core.MismatchError(
                f"cannot make keys for this program: it must be of the key's parameter set; these are different "
                f"{one.parameters._differs_from(parameters)}"
            )
    return recorded_needs(core.key_numbers, parameters._scheme.key, getattr(parameters, "n", 0))


def recorded_needs(numbers: Sequence[int], scheme: str, n: int) -> dict[str, Any]:
    """The arguments of `evaluation_keys` for keys of these numbers (`RecordedProgram::key_numbers`)."""
    if scheme == "tfhe":
        return {}
    generator, other = TURNS[scheme]
    steps = {pow(generator, k, 2 * n): k for k in range(1, n // 2)}
    wanted: dict[str, Any] = {"relinearize": 0 in numbers}
    rotations = [k for g, k in steps.items() if g in numbers]  # as keys list them
    if rotations:
        wanted["rotations"] = sorted(rotations)
    if 2 * n - 1 in numbers:
        wanted[other] = True
    if any(g not in (0, 2 * n - 1) and g not in steps for g in numbers):
        wanted["bootstrap"] = True
    return wanted
