"""Limb programs (in Cinnamon's instruction format) give correct results with the same bits on all devices. Errors name the
line of the program.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from cinnamon_rig import Writer, digits_of, rotated, sum_of_product
from heliograph import _core, cli
from places import places

N, SLOTS = 2**11, 2**10
LEVEL = 4
RNG = np.random.default_rng(7)
VALUES = {name: RNG.uniform(-1, 1, SLOTS) for name in ("x", "y", "p", "q")}

Case = tuple[Writer, Callable[[dict[str, Any]], dict[str, Any]]]


def product(chips: int = 1, aggregate: bool = False) -> Case:
    """Writes a program: x y is relinearized and rescaled, then rotated by 3 and by -1, and both rotations are added."""
    w = Writer(chips)
    digits = digits_of(LEVEL, chips, 2)
    z = sum_of_product(w, w.product(w.ciphertext("x", LEVEL), w.ciphertext("y", LEVEL)), digits, aggregate)
    left, right = rotated(w, z, 3, digits, aggregate), rotated(w, z, -1, digits, aggregate)
    w.give("z", *(w.rescale(w.each("add", a, b)) for a, b in zip(left, right, strict=True)))
    return w, lambda v: {"z": np.roll(v["x"] * v["y"], -3) + np.roll(v["x"] * v["y"], 1)}


def arithmetic(chips: int = 1) -> Case:
    """Writes a program with all operations that need no key."""
    w = Writer(chips, special=0)
    x0, x1 = w.ciphertext("x", LEVEL)
    p, q = w.plaintext("p", LEVEL), w.plaintext("q", LEVEL)
    s, t = w.scalar("s", LEVEL), w.scalar("t", LEVEL)
    w.give("times", w.rescale(w.each("mup", x0, p)), w.rescale(w.each("mup", x1, p)))
    w.give("less", w.each("sub", w.each("mov", x0), q), w.each("mov", x1))
    w.give("minus", w.each("neg", w.each("ads", x0, s)), w.each("neg", x1))
    w.give("scaled", w.rescale(w.each("mus", x0, t)), w.rescale(w.each("mus", x1, t)))
    w.give("under", w.each("sus", x0, s), x1)
    w.give("again", w.each("ntt", w.each("int", x0)), x1)
    return w, lambda v: {
        "times": v["x"] * v["p"],
        "less": v["x"] - v["q"],
        "minus": -(v["x"] + v["s"]),
        "scaled": v["x"] * v["t"],
        "under": v["x"] - v["s"],
        "again": v["x"],
    }


def conjugated() -> Case:
    w = Writer()
    x0, x1 = w.ciphertext("x", LEVEL)
    k0, k1 = w.switch(w.each("con", x1), 2, 0, digits_of(LEVEL, 1, 2))
    w.give("z", w.each("add", w.each("con", x0), k0), k1)
    return w, lambda v: {"z": np.conj(v["x"])}


class Party:
    """A secret key for a program, and values under it."""

    def __init__(self, program: hg.cinnamon.Program, device: str = "", fixed: bool = False) -> None:
        parameters = program.parameters(n=N, insecure=True)
        if device:
            parameters = hg.ckks.Parameters(parameters._core.on_device(device))
        if fixed:
            core = _core.ckks.SecretKey.generate_for_test(parameters._core, bytes(range(32)))
            self.secret: Any = hg.ckks.SecretKey(core)
        else:
            self.secret = hg.SecretKey.generate(parameters)
        self.program = program
        self.server = hg.Server(self.secret.evaluation_keys(relinearize=False, cinnamon=program))

    def values(self, **more: Any) -> dict[str, Any]:
        known = {**VALUES, "s": 0.75, "t": -0.5, **more}
        return {name: known[name] for name in self.program.inputs}

    def given(self, values: dict[str, Any]) -> dict[str, Any]:
        given = dict(values)
        for name, item in self.program.inputs.items():
            if item.kind == "ciphertext":
                given[name] = self.server.bind(self.secret.encrypt(values[name], level=item.level))
        return given

    def check(self, results: dict[str, Any], expected: dict[str, Any]) -> None:
        assert results.keys() == expected.keys()
        for name, want in expected.items():
            found = self.secret.decrypt(results[name])
            assert found.shape == np.shape(want)
            assert np.abs(found - want).max() < 2e-4, name


CASES: dict[str, Callable[[], Case]] = {
    "one chip": product,
    "two chips broadcast": lambda: product(2),
    "two chips aggregate": lambda: product(2, True),
    "three chips broadcast": lambda: product(3),
    "four chips aggregate": lambda: product(4, True),
    "arithmetic": arithmetic,
    "arithmetic on three": lambda: arithmetic(3),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_computes_its_function(name: str) -> None:
    writer, expected = CASES[name]()
    party = Party(writer.program())
    values = party.values()
    party.check(party.program.run(party.server, party.given(values)), expected(values))


def test_conjugation() -> None:
    writer, expected = conjugated()
    party = Party(writer.program())
    values = party.values(x=VALUES["x"] + 1j * VALUES["y"])
    party.check(party.program.run(party.server, party.given(values)), expected(values))


@pytest.mark.parametrize(
    "device", places("cpu", "ref", "3*cpu", "2*ref", "cuda:0", "2*cuda:0", usual=("ref", "3*cpu", "cuda:0"))
)
@pytest.mark.parametrize("name", ["one chip", "two chips broadcast", "four chips aggregate"])
def test_every_device_gives_the_same_bits(name: str, device: str) -> None:
    writer, _ = CASES[name]()
    bits = []
    for where in ("ref", device):
        party = Party(writer.program(), where, fixed=True)
        results = party.program.run(party.server, party.given(party.values()))
        bits.append(results["z"].to_bytes())
    assert bits[0] == bits[1]


def test_chips_that_broadcast_give_the_bits_of_one() -> None:
    """For equal digits, chips with input broadcast give the bits of one chip. Sums that are divided on each chip are rounded
    differently.
    """
    bits = []
    for chips in (1, 2, 4):
        w = Writer(chips)
        digits = [[0, 1], [2, 3]]
        z = sum_of_product(w, w.product(w.ciphertext("x", LEVEL), w.ciphertext("y", LEVEL)), digits, False)
        w.give("z", *(w.rescale(c) for c in z))
        party = Party(w.program(), fixed=True)
        bits.append(party.program.run(party.server, party.given(party.values()))["z"].to_bytes())
    assert bits[0] == bits[1] == bits[2]


def test_a_batch_and_a_second_run(tmp_path: Path) -> None:
    writer, expected = product(2)
    for name, text in writer.files().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.txt").write_text("the program ignores other operands")
    program = hg.cinnamon.load(tmp_path)
    party = Party(program)
    many = {name: RNG.uniform(-1, 1, (3, SLOTS)) for name in "xy"}
    runner = program.at(party.server)
    for _ in range(3):
        results = runner(party.given(many))
        assert results["z"].shape == (3,)
        want = many["x"] * many["y"]
        party.check(results, {"z": np.roll(want, -3, 1) + np.roll(want, 1, 1)})
    one = party.values()
    party.check(runner(party.given(one)), expected(one))
    assert 0 < runner.calls < program.instructions / 2  # equal instructions on several limbs become one call
    assert runner.nbytes > 0
    assert runner(x=party.given(many)["x"][:0], y=party.given(many)["y"][:0])["z"].shape == (0,)


def test_a_parsed_program_prints_its_text() -> None:
    files = product(2, True)[0].files()
    assert hg.cinnamon.Program.parse(files).files() == files
    odd = dict(files)
    odd["instructions0"] = odd["instructions0"].replace(", ", " ,\t").replace("\n", "\r\n\n")
    assert hg.cinnamon.Program.parse(odd).files() == files


def test_examples_of_the_thesis() -> None:
    """The lines of Kim's figure 2.3, with added inputs and outputs, are a valid program with correct results."""
    lines = [
        "Instruction Stream 0:",
        "load r0: i1(0){F}",
        "evg r8: k4821(0){F}",
        "mul r9: r0[X], r8[X] | 0",
        "load r10: i1(1){F}",
        "mov r12: r10 | 1",
        "bci B1: [0,63], [1]",
        "pll B1: r10[X] | 1",
        "ntt r11: b1{1} | 63",
        "ntt r13: b1{0} | 0",
        "add r14: r9[X], r13[X] | 0",
        "joi @ 720946:2 r890: r14[X] | 0",
        "joi @ 720945:2 : r12[X] | 1",
        "store r890[X]: v5(0)",
    ]
    other = [
        "Instruction Stream 1:",
        "load r1: i1(1)",
        "load r2: i1(0){F}",
        "joi @ 720946:2 : r2[X] | 0",
        "joi @ 720945:2 r3: r1[X] | 1",
        "store r3[X]: v5(1)",
        "load r1: i1(1){F}",
        "store r1[X]: v6(1)",
        "load r1: i2(0)",
        "nop",
        "snd r1[X]: v6(0) | 0",
    ]
    key = "k4821 | K:0:2:1:0:c1:[0,1] | [0]\n"
    i1, v5 = "i1 | x:c0 | [0,1]\n", "v5 | z:c0 | [0,1]\n"
    files = {
        "instructions0": "\n".join(lines) + "\n",
        "inputs0": f"Input Stream:\n{i1}{key};\nOutput Stream:\n{v5.replace('0,1', '0')};\n",
        "instructions1": "\n".join(other) + "\n",
        "inputs1": f"Input Stream:\n{i1}i2 | x:c1 | [0]\n;\nOutput Stream:\n{v5.replace('0,1', '1')}v6 | z:c1 | [0,1]\n;\n",
        "program_inputs": f"Ciphertext Stream:\n{i1}i2 | x:c1 | [0]\n;\nPlaintext Stream:\n;\nScalar Stream:\n;\n"
        f"Output Stream:\n{v5}v6 | z:c1 | [0,1]\n;\nEvalkey Stream:\n{key};\n",
    }
    program = hg.cinnamon.Program.parse(files)
    assert program.files() == files
    assert program.keys == ["K:0:2:1:0:[0,1]"]
    assert (program.levels, program.special) == (2, 1)
    party = Party(program)
    x = party.server.bind(party.secret.encrypt(VALUES["x"]))
    with pytest.raises(hg.ScaleError, match=r"instructions0:11: the scales of this sum differ"):
        program.run(party.server, x=x)
    with pytest.raises(hg.ScaleError, match=r"instructions0:12: the result z would have the scale 2\^57\.79"):
        program.at(party.server, tolerance=2.0**70)(x=x)


def divided(times: int, level: int, bias: bool = False) -> hg.cinnamon.Program:
    """Writes a program that divides x by its last prime `times` times, without a product."""
    w = Writer(special=0)
    c = w.ciphertext("x", level)
    for _ in range(times):
        c = (w.rescale(c[0]), w.rescale(c[1]))
    if bias:
        c = (w.each("add", c[0], w.plaintext("p", level - times)), c[1])
    w.give("z", *c)
    return w.program()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_division_that_leaves_its_rounding_error_is_refused(times: int, bias: bool) -> None:
    """Divisions that leave only the rounding error are refused. Without this check, decryption at a scale below 2^-65 would
    divide by zero.

    """
    party = Party(divided(times, times + 1, bias))
    with pytest.raises(hg.ScaleError, match=r"instructions0:\d+: this division leaves a scale of 2\^0"):
        party.program.run(party.server, party.given(party.values()))


@pytest.mark.parametrize("times", [1, 4, 40])
def test_a_scale_beyond_the_modulus_is_refused(times: int) -> None:
    w = Writer(special=0)
    c = w.ciphertext("x", 1)
    p = w.plaintext("p", 1)
    for _ in range(times):
        c = (w.each("mup", c[0], p), w.each("mup", c[1], p))
    w.give("z", *c)
    party = Party(w.program())
    with pytest.raises(hg.ScaleError, match=r"instructions0:\d+: the result z would have the scale 2\^"):
        party.program.run(party.server, party.given(party.values()))


@pytest.mark.parametrize(
    ("op", "value", "match"),
    [
        ("ads", 2.5, r"instructions0:\d+: cannot encode the scalar s: at level 1 .* must lie within 2\.297\d*, got 2\.5"),
        ("ads", -1e300, "must lie within"),
        ("mus", 1e-10, r"instructions0:\d+: .* must be 0, or at least .* got 1e-10, which rounds to 0"),
        ("ads", 10**400, "the scalar s must be at most"),
        ("ads", float("nan"), "finite"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(op: str, value: float, match: str) -> None:
    level = 1 if op == "ads" else 2
    w = Writer(special=0)
    c = w.ciphertext("x", level)
    s = w.scalar("s", level)
    w.give("z", w.each(op, c[0], s), w.each("mov" if op == "ads" else op, c[1], *([] if op == "ads" else [s])))
    party = Party(w.program())
    with pytest.raises((hg.PlaintextRangeError, hg.ParameterError), match=match):
        party.program.run(party.server, party.given(party.values(s=value)))


def pair(w: Writer, name: str, level: int = LEVEL) -> Any:
    return w.ciphertext(name, level)


def both(w: Writer, op: str, a: Any, b: Any) -> Any:
    return tuple(w.each(op, x, y) for x, y in zip(a, b, strict=True))


def times_plain(w: Writer, c: Any, p: Any) -> Any:
    return tuple(w.rescale(w.each("mup", x, {k: p[k] for k in x})) for x in c)


def without_top(c: Any) -> Any:
    return tuple({limb: r for limb, r in x.items() if limb < max(x)} for x in c)


def test_scales_of_plaintexts_follow_from_sums_and_divisions() -> None:
    """The scales of the plaintexts p and q follow from the sums x p + x and x^2 p + x q. These sums need other scales than
    the usual scales of their levels.
    """
    w = Writer()
    x = pair(w, "x")
    w.give("residual", *both(w, "add", times_plain(w, x, w.plaintext("p", LEVEL)), without_top(x)))
    square = tuple(w.rescale(c) for c in sum_of_product(w, w.product(x, x), digits_of(LEVEL, 1, 2), False))
    left = tuple(w.each("mup", c, w.plaintext("q", LEVEL - 1)) for c in square)
    right = tuple(w.each("mup", c, w.plaintext("r", LEVEL - 1)) for c in without_top(x))
    w.give("branches", *(w.rescale(c) for c in both(w, "add", left, right)))
    party = Party(w.program())
    values = party.values(r=VALUES["y"])
    runner = party.program.at(party.server, {name: values[name] for name in "pqr"})
    results = runner(x=party.given(values)["x"])
    x_values = values["x"]
    party.check(
        results,
        {"residual": x_values * values["p"] + x_values, "branches": x_values**2 * values["q"] + x_values * values["r"]},
    )
    parameters = party.secret.parameters
    assert runner.scales == party.program.scales(parameters)
    divided = 2.0 ** (math.log2(parameters.scale(LEVEL)) * 2 - math.log2(parameters.scale(LEVEL - 1)))
    # the scale of the plaintext is the prime, so the quotient has the scale of x
    assert runner.scales["p"] == pytest.approx(divided, rel=1e-9)
    assert results["branches"].scale == parameters.scale(LEVEL - 2)
    assert "scales" in party.program.explain(parameters)
    given = party.program.at(party.server, {name: values[name] for name in "pqr"}, scales={"q": 2.0**25, "r": 2.0**25})
    with pytest.raises(hg.ScaleError, match=r"instructions0:\d+: the scales of this sum differ"):
        given(x=party.given(values)["x"])
    with pytest.raises(hg.ParameterError, match="no plaintext or scalar of this name"):
        party.program.scales(parameters, {"x": 2.0**20})
    with pytest.raises(hg.ScaleError, match=r"a scale must be a finite number of 1 or more, got 0\.5"):
        party.program.scales(parameters, {"p": 0.5})


@pytest.mark.parametrize("name", ["one chip", "two chips broadcast", "two chips aggregate", "four chips aggregate"])
def test_results_have_the_precision_of_the_same_operations(name: str) -> None:
    """By the model's bounds, results have the precision of x * y and its rotations, with the keys that the program itself
    needs.
    """
    writer, expected = CASES[name]()
    party = Party(writer.program())
    values = party.values()
    given = party.given(values)
    z = party.program.run(party.server, given)["z"]
    error = np.abs(party.secret.decrypt(z, checked=True) - expected(values)["z"]).max()
    assert z.precision is not None
    assert z.precision < -math.log2(error)
    server = hg.Server(party.secret.evaluation_keys(rotations=[3, -1]))
    x, y = (server.bind(party.secret.encrypt(values[name])) for name in "xy")
    eager = hg.ckks.rotate(x * y, 3) + hg.ckks.rotate(x * y, -1)
    assert eager.precision < z.precision < eager.precision + 2  # the function x * y rescales before it rotates
    with hg.strict():
        assert party.secret.decrypt(z).shape == (SLOTS,)


def test_bounds_follow_plaintexts_scalars_and_batches() -> None:
    writer, expected = arithmetic()
    party = Party(writer.program())
    values = party.values(x=RNG.uniform(-1, 1, (3, SLOTS)))
    results = party.program.run(party.server, party.given(values))
    for name, want in expected(values).items():
        found = party.secret.decrypt(results[name], checked=True)
        assert 9 < results[name].precision < -math.log2(np.abs(found - want).max()), name
    kept = hg.Server(hg.from_bytes(party.server.keys.to_bytes()))
    x = kept.from_bytes(party.given(values)["x"].to_bytes())
    loaded = party.program.run(kept, {**values, "x": x})["times"]
    assert loaded.precision is None  # numbers in files do not affect the trusted bounds
    with pytest.raises(hg.RoomError, match="a proof is required"):
        party.secret.decrypt(loaded, checked=True)


def one_digit(w: Writer, x: Any) -> Any:
    """Writes a rotation whose key switch omits the second digit."""
    turned = w.each("rot 3", x[1])
    k0, k1 = w.switch(turned, 1, 3, [[0, 1]])
    w.switch(turned, 1, 3, [[2, 3]])
    return w.each("add", w.each("rot 3", x[0]), k0), k1


def other_steps(w: Writer, x: Any) -> Any:
    k0, k1 = w.switch(w.each("rot 3", x[1]), 1, 5, digits_of(LEVEL, 1, 2))
    return w.each("add", w.each("rot 3", x[0]), k0), k1


def another_square(w: Writer, x: Any) -> Any:
    y = pair(w, "y")
    z = w.product(x, y)
    return sum_of_product(w, (z[0], z[1], w.each("mul", x[1], x[1])), digits_of(LEVEL, 1, 2), False)


NO_CIPHERTEXTS: dict[str, Callable[[Writer, Any], Any]] = {
    "a digit left out": one_digit,
    "a key of other steps": other_steps,
    "components of two ciphertexts": lambda w, x: (x[0], pair(w, "y")[1]),
    "one component doubled": lambda w, x: (w.each("add", x[0], x[0]), x[1]),
    "products that do not belong together": another_square,
    "a key switch without its input": lambda w, x: w.switch(w.each("rot 3", x[1]), 1, 3, digits_of(LEVEL, 1, 2)),
}


@pytest.mark.parametrize("name", NO_CIPHERTEXTS)
def test_untraceable_results_promise_nothing(name: str) -> None:
    w = Writer()
    w.give("z", *NO_CIPHERTEXTS[name](w, pair(w, "x")))
    party = Party(w.program())
    z = party.program.run(party.server, party.given(party.values()))["z"]
    assert z.precision is None
    for decrypt in (lambda: party.secret.decrypt(z, checked=True), lambda: strictly(party.secret, z)):
        with pytest.raises(hg.RoomError, match="a proof is required"):
            decrypt()


def strictly(secret: Any, z: Any) -> Any:
    with hg.strict():
        return secret.decrypt(z)


def partial(second: str = "v8", listed: str = "[0,1]") -> dict[str, str]:
    """Writes a program in which two chips each store one summand of z = x + y. The compiler's output aggregation does this
    for the outputs of a program.

    """
    files = {}
    terms = {"v7": "c0", second: "c0", "v9": "c1", "v10": "c1"}
    for chip, (name, c0, c1, z0, z1) in enumerate([("x", "i1", "i2", "v7", "v9"), ("y", "i3", "i4", second, "v10")]):
        lines = [f"Instruction Stream {chip}:"]
        for source, to in ((c0, z0), (c1, z1)):
            for limb in (0, 1):
                lines += [f"load r0: {source}({limb})", f"store r0[X]: {to}({limb})"]
        inputs = f"{c0} | {name}:c0 | [0,1]\n{c1} | {name}:c1 | [0,1]\n"
        outputs = f"{z0} | z:c0 | [0,1]\n{z1} | z:c1 | [0,1]\n"
        files[f"instructions{chip}"] = "\n".join(lines) + "\n"
        files[f"inputs{chip}"] = f"Input Stream:\n{inputs};\nOutput Stream:\n{outputs};\n"
    inputs = "".join(f"i{2 * i + j + 1} | {name}:c{j} | [0,1]\n" for i, name in enumerate("xy") for j in (0, 1))
    outputs = "".join(f"{t} | z:{c} | {listed if t == 'v8' else '[0,1]'}\n" for t, c in terms.items())
    files["program_inputs"] = (
        f"Ciphertext Stream:\n{inputs};\nPlaintext Stream:\n;\nScalar Stream:\n;\nOutput Stream:\n{outputs};\n"
        "Evalkey Stream:\n;\n"
    )
    return files


@pytest.mark.parametrize("device", ["ref", "2*ref"])
def test_outputs_of_one_name_are_added(device: str) -> None:
    """If several chips store an output of the same name, the outputs are added."""
    party = Party(hg.cinnamon.Program.parse(partial()), device)
    values = party.values()
    party.check(party.program.run(party.server, party.given(values)), {"z": values["x"] + values["y"]})


def test_components_are_read_at_the_lower_level() -> None:
    """Components with different numbers of limbs are read at the lower level. The compiler stores sums of such components in
    this way.
    """
    w = Writer(special=0)
    x0, x1 = pair(w, "x")
    w.give("z", {limb: r for limb, r in x0.items() if limb < LEVEL - 1}, x1)
    party = Party(w.program())
    values = party.values()
    assert party.program.outputs["z"].level == LEVEL - 1
    party.check(party.program.run(party.server, party.given(values)), {"z": values["x"]})


def test_mismatched_parts_of_a_sum_are_refused() -> None:
    with pytest.raises(hg.InstructionError, match=r"instructions1:3: v7\(0\): another chip stores .*: instructions0:3"):
        hg.cinnamon.Program.parse(partial(second="v7"))
    with pytest.raises(hg.InstructionError, match=r"program_inputs:\d+: v8: cannot add up z:c0: .* v7 in line 12"):
        hg.cinnamon.Program.parse(partial(listed="[0]"))
    files = partial()
    files["instructions1"] = files["instructions1"].replace("load r0: i3(1)\nstore r0[X]: v8(1)\n", "")
    with pytest.raises(hg.InstructionError, match=r"program_inputs:\d+: v8: no chip stores limb 1"):
        hg.cinnamon.Program.parse(files)
    files = partial()
    files["program_inputs"] = files["program_inputs"].replace("v8 | z:c0 | [0,1]\n", "")
    with pytest.raises(hg.InstructionError, match=r"inputs1:\d+: v8: program_inputs does not list"):
        hg.cinnamon.Program.parse(files)


def test_keys_in_files(tmp_path: Path) -> None:
    writer, expected = product()
    party = Party(writer.program())
    party.server.keys.save(tmp_path / "server.hg")
    loaded = hg.load(tmp_path / "server.hg")
    assert loaded.of_programs == sorted(party.program.keys)
    assert loaded.to_bytes() == party.server.keys.to_bytes()
    assert "3 of programs" in repr(loaded)
    values = party.values()
    party.check(party.program.run(hg.Server(loaded), party.given(values)), expected(values))


def test_missing_operands_are_named() -> None:
    writer, _ = arithmetic()
    program = writer.program()
    party = Party(program)
    given = party.given(party.values())
    run = program.run
    with pytest.raises(hg.ParameterError, match="missing ciphertext: the program needs x"):
        run(party.server, {name: v for name, v in given.items() if name != "x"})
    with pytest.raises(hg.ParameterError, match="missing plaintext: the program needs p"):
        run(party.server, {name: v for name, v in given.items() if name != "p"})
    with pytest.raises(hg.ParameterError, match="missing scalar: the program needs s"):
        run(party.server, {name: v for name, v in given.items() if name != "s"})
    with pytest.raises(hg.ParameterError, match="no plaintext or scalar of the name w"):
        run(party.server, {**given, "w": 1.0})
    with pytest.raises(hg.ParameterError, match="no ciphertext named w"):
        run(party.server, {**given, "w": given["x"]})
    with pytest.raises(hg.DtypeError, match=r"a program runs at a hg\.Server"):
        run(None, given)
    with pytest.raises(hg.LevelError, match="x is at level 2; the program needs level 4"):
        run(party.server, {**given, "x": party.server.bind(party.secret.encrypt(VALUES["x"], level=2))})
    encoded = hg.encode(party.secret.parameters, VALUES["q"], scale=2.0**20)
    with pytest.raises(hg.ScaleError, match="instructions0:"):
        run(party.server, {**given, "q": encoded})
    other = Party(program)
    with pytest.raises(hg.WrongKeyError):
        run(party.server, other.given(other.values()))
    keyed = product()[0].program()
    bare = hg.Server(hg.SecretKey.generate(keyed.parameters(n=N, insecure=True)).evaluation_keys(relinearize=False))
    with pytest.raises(hg.MissingKeyError, match=r"K:0:4:2:0:\[0,1\]\[2,3\] is not among the keys"):
        keyed.at(bare)
    wide = hg.ckks.parameters(n=N, levels=4, log_scale=48, base_bits=58, special=5, word_size=32, insecure=True)
    other_set = hg.Server(hg.SecretKey.generate(wide).evaluation_keys())
    with pytest.raises(hg.ParameterError, match="a prefix of its primes"):
        keyed.at(other_set)
    small = hg.SecretKey.generate(program.parameters(n=N, insecure=True))
    with pytest.raises(hg.ParameterError, match="needs 4 primes and 2 special ones"):
        small.evaluation_keys(cinnamon=keyed)
    recorded = hg.program(lambda x: program.run(party.server, {**given, "x": x})["times"])
    with pytest.raises(hg.RecordingError, match="already a program"):
        recorded(given["x"])
    run(party.server, given)


def damaged(files: dict[str, str], name: str, find: str, instead: str) -> dict[str, str]:
    """Replaces the first match of an expression in one of the files."""
    text, count = re.subn(find, instead, files[name], count=1, flags=re.MULTILINE)
    assert count == 1, find
    return {**files, name: text}


ODD: list[tuple[str, str, str, str]] = [
    ("instructions0", r"^mul", "mull", r"instructions0:\d+: mull: there is no such instruction"),
    ("instructions0", r"^mul r(\d+): r\d+", r"mul r\1: r60000", "r60000: this register was never written"),
    ("instructions0", r"^mul r(\d+): r\d+", r"mul r\1: r70000", "number of a register must be at most 65535"),
    ("instructions0", r"^mul r(\d+): ", r"mul r\1 ", '":" is expected'),
    ("instructions0", r"^(mul .*)\| \d+$", r"\1| 64", "64: the index of a prime must be at most 63"),
    ("instructions0", r"^(mul .*)\| \d+$", r"\1| 1x", "x: the end of the instruction is expected"),
    ("instructions0", r"^(mul .*) \| \d+$", r"\1", '"|" is expected'),
    ("instructions0", r"^(mul .*)\| 3$", r"\1| 2", "modulo prime 3, not 2"),
    ("instructions0", r"^load (r\d+): i\d+\(0\)", r"load \1: i99(0)", r"i99\(0\): this chip's inputs do not list it"),
    ("instructions0", r"^load (r\d+): i(\d+)\(0\)", r"load \1: i\2(9)", "do not list this limb of the input"),
    ("instructions0", r"^load", "loas", "a register of scalars is expected"),
    ("instructions0", r"^pl1 B0: (r\d+)\[X\]", r"bcw B0: \1", "in coefficients is expected, this one is transformed"),
    ("instructions0", r"^bcw B0: (r\d+)", r"pl1 B0: \1", "this one is in coefficients"),
    ("instructions0", r"^bci B0", "bci B7", "no conversion of this unit has begun"),
    ("instructions0", r"^bci B0: \[2,", "bci B0: [0,", "source and target primes of a conversion must differ"),
    ("instructions0", r"^bci B0: \[2,3", "bci B0: [3,2", "2: a list of primes must ascend"),
    ("instructions0", r"^bcw B0: .*\n", "", "lacks some of its source limbs"),
    ("instructions0", r"^(bcw B0: .*\n)", r"\1\1", "this limb was pushed already"),
    ("instructions0", r"^ntt (r\d+): b0\{0\}", r"ntt \1: b0{9}", "has 4 results"),
    ("instructions0", r"^(ntt r\d+: b0\{0\} \|) 2", r"\1 3", "modulo prime 2, not 3"),
    ("instructions0", r"^add (r\d+): (r\d+)\[X\], r\d+\[X\]", r"add \1: \2[X], \2[X]", ""),
    ("instructions0", r"^(sud r\d+: r\d+\[X\]), b0\{0\}", r"\1, b0{1}", "modulo prime 1"),
    ("instructions0", r"^Instruction Stream 0", "Instruction Stream 1", "must have the number of its file"),
    ("instructions0", r"^Instruction Stream 0:\n", "", "a stream must begin with"),
    ("instructions0", r"^store (r\d+): v(\d+)\(2\)", r"store \1: v\2(1)", "this is another limb"),
    ("instructions0", r"^store .*\n", "", r"no chip stores limb 0 of this term of z:c\d"),
    ("instructions0", r"^rot 3", "rot 2000000000", "a number of steps is out of range"),
    ("instructions0", r"^rot 3", "rot 03", "not have leading zeros"),
    ("inputs0", r"^Input", "Inputs", '"Input Stream:" is expected'),
    ("inputs0", r"x:c0", "w:c0", "program_inputs does not list it"),
    ("inputs0", r"x:c0", "x:c9", "not the name of a ciphertext"),
    ("inputs0", r"\[0,1,2,3\]", "[0,1,2,3,5]", "program_inputs does not list these limbs"),
    ("inputs0", r"^;\n", "", "do not belong to this list|is expected|a term is expected"),
    ("program_inputs", r"^;\n\Z", "", 'the file\'s end: the ";" that ends a list is missing'),
    ("program_inputs", r"K:1:4:2:3", "K:9:4:2:3", "not the name of a ciphertext"),
    ("program_inputs", r"z:c1 \| \[0,1,2\]", "z:c1 | [0,1]", "cannot add up|in all limbs of its level|does not list"),
    ("program_inputs", r"K:0:4:2:0:c0:\[0,1\]", "K:0:4:2:7:c0:[0,1]", "only a rotation has steps"),
    ("program_inputs", r"K:0:4:2:0:c0:\[0,1\]", "K:2:4:2:1:c0:[0,1]", "only a rotation has steps"),
]


@pytest.mark.parametrize(("name", "find", "instead", "match"), ODD, ids=range(len(ODD)))
def test_invalid_programs_are_refused(name: str, find: str, instead: str, match: str) -> None:
    files = product()[0].files()
    broken = damaged(files, name, find, instead)
    if not match:  # the changed program computes a different sum, which is valid
        hg.cinnamon.Program.parse(broken)
        return
    with pytest.raises(hg.InstructionError, match=match) as error:
        hg.cinnamon.Program.parse(broken)
    assert re.match(r"\w+:\d+: ", str(error.value)), error.value


def test_digits_that_leave_out_a_limb_are_refused() -> None:
    """Key switches that omit a limb of their input are refused."""
    files = product()[0].files()
    for name in files:
        lines = files[name].splitlines()
        if name.startswith("instructions"):
            continue
        files[name] = "\n".join(line for line in lines if not re.search(r"K:1:4:2:3:c\d:\[2,3\]", line)) + "\n"
    with pytest.raises(hg.InstructionError, match=r"program_inputs:\d+: K:1:4:2:3:\[0,1\]: no digit of this key has limb 2"):
        hg.cinnamon.Program.parse(files)


@pytest.mark.parametrize("name", ["instructions1024", "inputs99999999999999999999", "instructions01"])
def test_files_of_no_chip_are_refused(name: str) -> None:
    with pytest.raises(hg.InstructionError, match=f"{name}:0: .*: the number of a file must be that of its chip, 0 to 1023"):
        hg.cinnamon.Program.parse({**product()[0].files(), name: ""})


def test_a_register_read_after_its_last_use() -> None:
    files = product()[0].files()
    broken = damaged(files, "instructions0", r"^(mul r\d+: )(r\d+), (.*\n)", r"\1\2[X], \3\1\2, \3")
    with pytest.raises(
        hg.InstructionError, match=r"instructions0:\d+: r\d+: its value was read for the last time in line \d+"
    ):
        hg.cinnamon.Program.parse(broken)
    broken = damaged(files, "instructions0", r"^(load r\d+: i\d+\(0\))\n", r"\1{F}\n\1\n")
    with pytest.raises(hg.InstructionError, match="freed by an earlier load"):
        hg.cinnamon.Program.parse(broken)


MEETINGS: list[tuple[str, str, str, str]] = [
    ("instructions0", r"^dis @ 1:2", "dis @ 1:3", "other chips expect 3 chips at this exchange"),
    ("instructions1", r"^rcv @ 1:2 .*\n", "", "only 1 chips take part in this exchange"),
    ("instructions0", r"^(dis @ 1:2 .*\n)", r"\1\1", "a chip takes part twice"),
    ("instructions1", r"^rcv @ 1:2 (r\d+): ", r"rcv @ 2:2 \1: ", "a chip takes part twice"),
    ("instructions1", r"^rcv @ 1:2 (r\d+): ", r"joi @ 1:2 \1: | 0", "have another instruction|another prime"),
]


@pytest.mark.parametrize(("name", "find", "instead", "match"), MEETINGS, ids=range(len(MEETINGS)))
def test_chips_that_do_not_meet_are_refused(name: str, find: str, instead: str, match: str) -> None:
    with pytest.raises(hg.InstructionError, match=match):
        hg.cinnamon.Program.parse(damaged(product(2)[0].files(), name, find, instead))


def test_chips_that_wait_for_each_other_are_refused() -> None:
    files = product(2)[0].files()
    lines = ["Instruction Stream {0}:", "load r0: i1({0})", "rcv @ {1}:2 r1: ", "dis @ {0}:2 : r0"]
    for chip in (0, 1):
        text = "\n".join(lines).format(chip, 1 - chip) + "\n"
        files[f"instructions{chip}"] = text
    with pytest.raises(hg.InstructionError, match="instructions0:3: 1: deadlock"):
        hg.cinnamon.Program.parse(files)


def test_missing_files_are_named(tmp_path: Path) -> None:
    files = product(2)[0].files()
    for name in files:
        if name == "instructions1":
            continue
        with pytest.raises(hg.InstructionError, match=f"{name}:0: the file is missing"):
            hg.cinnamon.Program.parse({n: t for n, t in files.items() if n != name})
    with pytest.raises(hg.InstructionError, match="instructions1:0: the file is missing"):
        hg.cinnamon.Program.parse({n: t for n, t in files.items() if n != "instructions1"})
    with pytest.raises(FileNotFoundError):
        hg.cinnamon.load(tmp_path / "none")
    with pytest.raises(hg.InstructionError, match="instructions0:0: the file is missing"):
        hg.cinnamon.load(tmp_path)


def test_any_cut_of_a_program_is_refused_or_valid() -> None:
    """If a program is cut at any position, it gives a typed error, or it is valid because only unneeded lines are missing."""
    files = product()[0].files()
    for name, text in files.items():
        for end in range(0, len(text), max(1, len(text) // 150)):
            said = ""
            try:
                hg.cinnamon.Program.parse({**files, name: text[:end]})
            except hg.InstructionError as error:
                said = str(error)
            assert said == "" or re.match(r"\w+:\d+: ", said), said


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    for name, text in product(2)[0].files().items():
        (folder / name).write_text(text)
    x = np.linspace(-1, 1, SLOTS)
    np.savez(tmp_path / "values.npz", x=x)
    arguments = ["cinnamon", str(folder), "--ring", str(N), "--values", str(tmp_path / "values.npz")]
    assert cli.run([*arguments, "--out", str(tmp_path / "out.npz"), "--check"]) == 0
    said = capsys.readouterr().out
    assert "run 2: " in said
    assert "those of plain scalar code, bit by bit" in said
    with np.load(tmp_path / "out.npz") as file:
        y = np.random.default_rng(1)
        y.uniform(-1, 1, SLOTS)  # draws the values of x first, so that the next draws are the values of y
        want = x * y.uniform(-1, 1, SLOTS)
        assert np.abs(file["z"] - np.roll(want, -3) - np.roll(want, 1)).max() < 2e-4
    # the output file exists already, so the command refuses
    assert cli.run([*arguments, "--out", str(tmp_path / "out.npz")]) == 1
    (folder / "instructions1").unlink()
    assert cli.run(arguments) == 1
    assert "instructions1:0: the file is missing" in capsys.readouterr().err.replace("\n", " ")


VALUE_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an array of two axes": (lambda p: np.savez(p, x=np.zeros((2, SLOTS))), "cannot take x: a ciphertext must be"),
    "a plaintext of two axes": (lambda p: np.savez(p, p=np.zeros((2, 2))), "cannot take p: a plaintext must be"),
    "texts": (lambda p: np.savez(p, p=np.array(["a"])), "cannot take p: a plaintext must be finite numbers"),
    "a scalar of one axis": (lambda p: np.savez(p, s=np.zeros(1)), "cannot take s: a scalar must be"),
    "a complex scalar": (lambda p: np.savez(p, s=1j), "cannot take s: a scalar must be a finite real number"),
    "no number": (lambda p: np.savez(p, x=np.full(SLOTS, np.nan)), "cannot take x: a ciphertext must be finite"),
    "too many": (lambda p: np.savez(p, x=np.zeros(SLOTS + 1)), "slots"),
    "another name": (lambda p: np.savez(p, w=np.zeros(2)), "the program has no input w; its inputs are x"),
    "objects": (lambda p: np.savez(p, x=np.array([{}])), "must be an .npz file of numeric arrays"),
    "one array": (lambda p: p.write_bytes(npy()), "one array without a name"),
    "a text": (lambda p: p.write_text("x = 1"), "must be an .npz file of numeric arrays"),
    "nothing": (lambda p: p.write_bytes(b""), "must be an .npz file of numeric arrays"),
    "a damaged file": (lambda p: p.write_bytes(b"PK\x03\x04 and no more"), "must be an .npz file of numeric arrays"),
}


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


@pytest.mark.parametrize("name", VALUE_FILES)
def test_the_command_refuses_values(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arithmetic()[0].program().save(tmp_path / "program")
    write, match = VALUE_FILES[name]
    path = tmp_path / "values.npz"
    write(path)
    assert cli.run(["cinnamon", str(tmp_path / "program"), "--ring", str(N), "--values", str(path)]) == 1
    assert match in " ".join(capsys.readouterr().err.split())


def test_the_command_takes_scales(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arithmetic()[0].program().save(tmp_path / "program")
    arguments = ["cinnamon", str(tmp_path / "program"), "--ring", str(N), "--runs", "1"]
    assert cli.run([*arguments, "--scale", "p=25.5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "p 2^25.5" in said
    assert "q s t 2^27.8" in said
    for wrong in ("p", "p=", "p=a", "=3", "p=1e9", "p=nan"):
        assert cli.run([*arguments, "--scale", wrong]) == 1
        assert "--scale must be NAME=BITS" in " ".join(capsys.readouterr().err.split())
    divided(1, 2).save(tmp_path / "noise")
    assert cli.run(["cinnamon", str(tmp_path / "noise"), "--ring", str(N)]) == 1
    out, err = capsys.readouterr()
    assert "x (ciphertext, level 2)" in out  # the command prints the inputs before the error
    assert "this division leaves a scale" in " ".join(err.split())
    assert cli.run([*arguments, "--scale", "x=20"]) == 1
    assert "no plaintext or scalar of this name" in " ".join(capsys.readouterr().err.split())
