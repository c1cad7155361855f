"""Recorded programs that are written as limb programs give the bits of the recording, for any number of chips and on any
device.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core
from places import places
from rigs import open_devices

#: The number of GPUs, at most two.
GPUS = sum(name in open_devices() for name in ("cuda:0", "cuda:1"))

RNG = np.random.default_rng(11)
SLOTS = 2**10
VALUES = {name: RNG.uniform(-1, 1, SLOTS) for name in ("x", "y", "w")}


#: Sets with primes below 2^30, 2^50 and 2^60.
SETS: dict[str, dict[str, Any]] = {
    "30": {"levels": 6, "log_scale": 28, "base_bits": 30, "special": 2, "word_size": 32},
    "50": {"levels": 5, "log_scale": 36, "base_bits": 45, "special": 2},
    "60": {"levels": 5, "log_scale": 49.5, "base_bits": 59, "special": 2},
}


class Owner:
    """A secret key and operands for these tests, on a separate device."""

    def __init__(self, device: str = "", bits: str = "50") -> None:
        parameters = hg.ckks.parameters(n=2**11, insecure=True, **SETS[bits])
        if device:
            parameters = hg.ckks.Parameters(parameters._core.on_device(device))
        self.secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(parameters._core, bytes(range(32))))
        self.server = hg.Server(self.secret.evaluation_keys(rotations=[1, 2, 3, -1, -5, 4, 8, 16], conjugate=True))

    def encrypted(self, *names: str, **kwargs: Any) -> list[Any]:
        return [self.server.bind(self.secret.encrypt(VALUES[name], **kwargs)) for name in names]


def mixed(x: Any, y: Any) -> Any:
    """Computes a product, sums with clear numbers, rotations and a conjugation, at decreasing levels."""
    z = hg.relinearize(x * y)
    turned = hg.ckks.rotate(z, 1) + hg.ckks.rotate(z, -5) * VALUES["w"] - hg.ckks.rotate(x, 3)
    return hg.ckks.conjugate(turned) * 0.5 - 0.25


def hoisted(x: Any, y: Any) -> Any:
    """Computes a sum of rotations of one input."""
    return sum((hg.ckks.rotate(x, k) * VALUES["w"] for k in (1, 2, 3, -1)), y * 2)


def polynomial(x: Any, y: Any) -> Any:
    """Computes squares, and adds their terms with weights."""
    square = hg.relinearize(x * x)
    return hg.relinearize(square * square) * 0.25 + square * -1.5 + x - y


def chained(x: Any, y: Any) -> Any:
    """Computes one product after another."""
    return hg.ckks.rotate(x * y, 1) * y


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"mixed": mixed, "hoisted": hoisted, "polynomial": polynomial}
EXACT = [(1, "broadcast"), (2, "broadcast"), (5, "broadcast"), (3, "sum")]


@pytest.fixture(scope="module")
def owner() -> Owner:
    return Owner()


def recorded(owner: Owner, function: Callable[..., Any], **kwargs: Any) -> tuple[Any, list[Any], Any]:
    """Returns the program, its operands and its result."""
    given = owner.encrypted("x", "y", **kwargs)
    program = hg.program(function)
    return program, given, program(*given)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("chips", "switching"), EXACT)
def test_limb_programs_have_the_recordings_bits(owner: Owner, name: str, chips: int, switching: str) -> None:
    program, (x, y), z = recorded(owner, FUNCTIONS[name])
    written = hg.cinnamon.write(program, chips=chips, switching=switching)
    assert written.chips == chips
    assert ("joi" in written.counts) == (switching == "sum")
    result = written.run(owner.server, x=x, y=y)["y"]
    assert (result.level, result.scale) == (z.level, z.scale)
    assert np.array_equal(owner.secret.decrypt(result), owner.secret.decrypt(z))


def test_limb_programs_have_the_recordings_bounds(owner: Owner) -> None:
    """For operands within the recorded bounds, results have the noise and the ranges of the recording. For other operands,
    both are unknown.
    """
    program, (x, y), z = recorded(owner, chained)
    written = hg.cinnamon.write(program, chips=3)
    result = written.run(owner.server, x=x, y=y)["y"]
    assert (result.precision, result.bounds) == (z.precision, z.bounds)
    assert np.array_equal(owner.secret.decrypt(result, checked=True), owner.secret.decrypt(z))
    again = hg.cinnamon.Program.parse(written.files()).at(owner.server, written.constants)
    assert again(x=x, y=y)["y"].precision == z.precision
    few = owner.server.bind(owner.secret.encrypt(VALUES["x"] / 2))
    assert again(x=few, y=y)["y"].precision == z.precision
    noisier = hg.ckks.rotate(x, 1) - hg.ckks.rotate(x, 1) + x
    larger = owner.server.bind(owner.secret.encrypt(VALUES["x"] * 2))
    other = written.files()
    other["instructions0"] = other["instructions0"].replace("add ", "sub ", 1)
    for run, given in (
        (again, {"x": noisier, "y": y}),
        (again, {"x": larger, "y": y}),
        (hg.cinnamon.Program.parse(other).at(owner.server, written.constants), {"x": x, "y": y}),
        (hg.cinnamon.write(program, chips=3, switching="aggregate").at(owner.server), {"x": x, "y": y}),
    ):
        promised = run(given)["y"]
        assert promised.precision is None
        with pytest.raises(hg.RoomError, match="a proof is required"):
            owner.secret.decrypt(promised, checked=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parsed_limb_programs_have_the_same_bits(owner: Owner, name: str, tmp_path: Path) -> None:
    program, (x, y), z = recorded(owner, FUNCTIONS[name])
    written = hg.cinnamon.write(program, chips=2)
    written.save(tmp_path / "program")
    again = hg.cinnamon.load(tmp_path / "program")
    assert again.files() == written.files()
    assert again.constants is None
    run = again.at(owner.server, written.constants)
    for _ in range(2):
        assert np.array_equal(owner.secret.decrypt(run(x=x, y=y)["y"]), owner.secret.decrypt(z))


@pytest.mark.parametrize(
    "device", places("cpu", "ref", "3*cpu", "2*ref", "cuda:0", "2*cuda:0", usual=("ref", "3*cpu", "cuda:0"))
)
def test_chips_that_divide_separately_agree_on_every_device(device: str) -> None:
    """If each chip divides on its own, results are rounded differently, but they have the same bits on every device and
    mesh.
    """
    here, there = Owner("4*ref"), Owner(device)
    bits = []
    for owner in (here, there):
        program, (x, y), z = recorded(owner, mixed)
        result = hg.cinnamon.write(program, chips=4, switching="aggregate").run(owner.server, x=x, y=y)["y"]
        found, expected = owner.secret.decrypt(result), owner.secret.decrypt(z)
        assert not np.array_equal(found, expected)
        assert np.abs(found - expected).max() < 1e-5
        bits.append(found)
    assert np.array_equal(bits[0], bits[1])


@pytest.mark.parametrize("bits", SETS)
@pytest.mark.parametrize(
    "device", places("cpu", "ref", "3*cpu", "cuda:0", "2*cuda:0", usual=("cpu", "ref", "3*cpu", "cuda:0"))
)
def test_every_device_and_arithmetic(device: str, bits: str) -> None:
    owner = Owner(device, bits)
    # If a level has one prime of 28 bits, its scale is too small for sums of several terms.
    for function in (hoisted, chained, *(() if bits == "30" else FUNCTIONS.values())):
        program, (x, y), z = recorded(owner, function)
        run = hg.cinnamon.write(program, chips=3).at(owner.server)
        for _ in range(3):  # on devices that have graphs, this replays a graph
            assert np.array_equal(owner.secret.decrypt(run(x=x, y=y)["y"]), owner.secret.decrypt(z))


@pytest.mark.parametrize("device", places("cpu", "cuda:0", usual=("cpu", "cuda:0")))
def test_optimizations_keep_the_bits(device: str) -> None:
    """If any one of the optimizations is switched off, results have the same bits and take more calls."""
    owner = Owner(device)
    program, (x, y), z = recorded(owner, mixed)
    written = hg.cinnamon.write(program)
    calls = {}
    for fuse, merge, graph in (
        (False, False, None),
        (False, True, "stream"),
        (True, False, "branches"),
        (True, True, "stream"),
    ):
        run = written.at(owner.server, fuse=fuse, merge=merge, graph=graph)
        for _ in range(2):
            assert np.array_equal(owner.secret.decrypt(run(x=x, y=y)["y"]), owner.secret.decrypt(z))
        calls[fuse, merge] = run.calls
        assert sum(run.work) > 0
    plain = written.at(owner.server, hints=False)
    for _ in range(2):
        assert np.array_equal(owner.secret.decrypt(plain(x=x, y=y)["y"]), owner.secret.decrypt(z))
    assert calls[True, True] < calls[True, False] < calls[False, False]
    assert calls[True, True] < calls[False, True] < calls[False, False]
    with pytest.raises(hg.ParameterError, match="graph must be"):
        written.at(owner.server, graph="tree")


@pytest.mark.parametrize(
    ("home", "others"),
    [
        ("cpu", ["cpu"]),
        ("cpu", ["ref", "cpu"]),
        *([("cuda:0", ["cuda:0"]), ("cuda:0", ["cuda:1"])] if GPUS > 1 else [("cuda:0", ["cuda:0"])] * GPUS),
    ],
)
def test_chips_may_be_on_other_devices_than_the_server(home: str, others: list[str]) -> None:
    owner = Owner(home)
    for switching in ("broadcast", "sum"):
        program, (x, y), z = recorded(owner, mixed)
        run = hg.cinnamon.write(program, chips=4, switching=switching).at(owner.server, devices=others)
        for _ in range(3):
            assert np.array_equal(owner.secret.decrypt(run(x=x, y=y)["y"]), owner.secret.decrypt(z))
        assert run.devices == 1 + len(others)
        assert run.kernels["move"] > 0


@pytest.mark.parametrize("device", places("cpu", "3*ref", "cuda:0", usual=("cpu", "3*ref", "cuda:0")))
def test_limbs_beyond_the_memory_move_to_the_host(device: str) -> None:
    """If there is less memory, the program moves limbs to the host and back; the bits do not change. If there is too little
    memory, an error is raised.
    """
    owner = Owner(device)
    for function in FUNCTIONS.values():
        program, (x, y), z = recorded(owner, function)
        written = hg.cinnamon.write(program, chips=3)
        whole = written.at(owner.server)
        whole(x=x, y=y)
        assert whole.spilled == (0, 0, 0)
        memory, moved = whole.nbytes, []
        while memory > 0:
            memory = memory * 4 // 5
            run = written.at(owner.server, memory=memory)
            try:
                results = [run(x=x, y=y)["y"] for _ in range(2)]
            except hg.OutOfMemoryError:
                break
            assert all(np.array_equal(owner.secret.decrypt(result), owner.secret.decrypt(z)) for result in results)
            held, out, back = run.spilled
            assert (held > 0) == (back > 0)
            assert held <= out
            assert run.nbytes <= whole.nbytes
            moved.append(back)
        with pytest.raises(hg.OutOfMemoryError, match="at once"):
            written.at(owner.server, memory=memory)(x=x, y=y)
        assert sum(back > 0 for back in moved) > 2
        assert moved[0] == 0
    for memory, error in ((0, hg.ParameterError), (-1, hg.ParameterError), (1.5, hg.DtypeError)):
        with pytest.raises(error, match="memory"):
            written.at(owner.server, memory=memory)


def test_a_batch_is_many_ciphertexts(owner: Owner) -> None:
    values = RNG.uniform(-1, 1, (3, SLOTS))
    x = owner.server.bind(owner.secret.encrypt(values))
    program = hg.program(lambda x: (x * x).relinearize().sum(axis=0))
    z = program(x)
    written = hg.cinnamon.write(program)
    assert sorted(written.inputs)[-3:] == ["x.0", "x.1", "x.2"]
    result = written.run(owner.server, {f"x.{i}": x[i] for i in range(3)})["y"]
    assert np.array_equal(owner.secret.decrypt(result), owner.secret.decrypt(z))


def test_a_program_of_one_runs_a_batch(owner: Owner) -> None:
    program, (x, y), z = recorded(owner, mixed)
    written = hg.cinnamon.write(program)
    both = written.run(owner.server, x=hg.stack([x, y]), y=hg.stack([y, x]))["y"]
    assert np.array_equal(owner.secret.decrypt(both)[0], owner.secret.decrypt(z))


def test_a_matrix() -> None:
    """A matrix by baby and giant steps, whose sums are divided only once, has the bits of the recording."""
    parameters = hg.ckks.parameters(n=2**11, levels=4, log_scale=36, base_bits=45, special=2, insecure=True)
    layer = hg.ckks.LinearTransform(parameters, RNG.uniform(-1, 1, (12, 12)), baby=4)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys(rotations=layer.rotations))
    x = server.bind(secret.encrypt(RNG.uniform(-1, 1, 12), pad=True))
    program = hg.program(lambda x: layer @ x)
    z = secret.decrypt(program(x))
    for chips, switching in EXACT:
        written = hg.cinnamon.write(program, chips=chips, switching=switching)
        assert np.array_equal(secret.decrypt(written.run(server, x=x)["y"])[:12], z)


def test_a_bootstrap() -> None:
    parameters = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys(bootstrap=True))
    x = server.bind(secret.encrypt(VALUES["x"], bound=1, level=parameters.bootstrapping_level))
    program = hg.program(hg.ckks.bootstrap)
    z = secret.decrypt(program(x))
    for chips, switching in ((1, "broadcast"), (4, "broadcast"), (4, "sum")):
        written = hg.cinnamon.write(program, chips=chips, switching=switching, inputs=["x"], results=["z"])
        assert np.array_equal(secret.decrypt(written.run(server, x=x)["z"]), z)
    aggregated = hg.cinnamon.write(program, chips=4, switching="aggregate", inputs=["x"])
    assert np.abs(secret.decrypt(aggregated.run(server, x=x)["y"]) - VALUES["x"]).max() < 1e-4


def test_the_program_is_sufficient_to_make_its_keys(owner: Owner) -> None:
    """The program alone is sufficient for making its keys."""
    program, _, _ = recorded(owner, hoisted)
    written = hg.cinnamon.write(program)
    other = hg.SecretKey.generate(owner.secret.parameters)
    server = hg.Server(other.evaluation_keys(relinearize=False, cinnamon=written))
    x, y = (server.bind(other.encrypt(VALUES[name])) for name in "xy")
    expected = sum((np.roll(VALUES["x"], -k) * VALUES["w"] for k in (1, 2, 3, -1)), VALUES["y"] * 2)
    assert np.abs(other.decrypt(written.run(server, x=x, y=y)["y"]) - expected).max() < 1e-5


def test_unwritable_programs_are_refused(owner: Owner, tmp_path: Path) -> None:
    program, (x, y), _ = recorded(owner, mixed)
    for wrong, error, match in (
        ({"chips": 0}, hg.ParameterError, "chips must be 1 to 64"),
        ({"switching": "shout"}, hg.ParameterError, "switching must be"),
        ({"inputs": ["x"]}, hg.ParameterError, "names must be one for each"),
        ({"inputs": ["x", "x"]}, hg.ParameterError, "must differ"),
        ({"results": ["a:b"]}, hg.ParameterError, "letters, digits"),
        ({"chips": "two"}, hg.ParameterError, "chips"),
    ):
        with pytest.raises(error, match=match):
            hg.cinnamon.write(program, **wrong)  # type: ignore[arg-type]
    with pytest.raises(hg.RecordingError, match="nothing is recorded"):
        hg.cinnamon.write(hg.program(mixed))
    with pytest.raises(hg.DtypeError, match="recorded program"):
        hg.cinnamon.write(mixed)  # type: ignore[arg-type]
    program.save(tmp_path / "mixed.hgp")
    with pytest.raises(hg.ParameterError, match="record it in this process"):
        hg.cinnamon.write(hg.Program.load(tmp_path / "mixed.hgp"))
    degree = hg.program(lambda x, y: hg.ckks.multiply(x, y, relinearize=False))
    degree(x, y)
    with pytest.raises(hg.ParameterError, match="degree 1"):
        hg.cinnamon.write(degree)
    wide = hg.ckks.parameters(n=2**11, levels=4, log_scale=48, base_bits=58, special=5, word_size=32, insecure=True)
    another = hg.SecretKey.generate(wide)
    doubled = hg.program(lambda x: x + x)
    doubled(hg.Server(another.evaluation_keys()).bind(another.encrypt(VALUES["x"])))
    with pytest.raises(hg.ParameterError, match="a prefix of its primes"):
        hg.cinnamon.write(doubled)
    same = hg.program(lambda x, y: x + y)
    same(x, x)
    with pytest.raises(hg.ParameterError, match="share memory"):
        hg.cinnamon.write(same)
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))
    c = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([1, 2, 3], pad=True))
    exact = hg.program(lambda c: c + c)
    exact(c)
    with pytest.raises(hg.ParameterError, match="CKKS"):
        hg.cinnamon.write(exact)


def test_mismatched_programs_and_operands_are_refused(owner: Owner) -> None:
    program, (x, y), _ = recorded(owner, mixed)
    written = hg.cinnamon.write(program)
    other = hg.cinnamon.write(recorded(owner, polynomial)[0], results=["z"])
    with pytest.raises(hg.ParameterError, match="another program"):
        hg.cinnamon.Program.parse(written.files()).at(owner.server, other.constants)
    with pytest.raises(hg.LevelError):
        written.run(owner.server, x=hg.ckks.lower(x, 2), y=y)
    with pytest.raises(hg.ScaleError, match="recorded"):
        written.run(owner.server, x=hg.ckks.multiply(x, 2.0, rescale=False), y=y)
    few = hg.Server(owner.secret.evaluation_keys(rotations=[1]))
    with pytest.raises(hg.MissingKeyError):
        written.at(few)


class ExactOwner:
    """A BGV secret key on a separate device."""

    def __init__(self, device: str = "", **kwargs: Any) -> None:
        parameters = hg.bgv.parameters(n=2**11, insecure=True, **kwargs)
        if device:
            parameters = hg.bgv.Parameters(parameters._core.on_device(device))
        self.secret = hg.SecretKey.generate(parameters)
        self.keys = self.secret.evaluation_keys(rotations=[1, 2, -3], columns=True)
        self.server = hg.Server(self.keys)
        values = np.random.default_rng(5).integers(-40, 40, (3, 2**11))
        self.x, self.y = (self.server.bind(self.secret.encrypt(v)) for v in values[:2])
        self.weights = self.server.encode(values[2])

    def functions(self) -> dict[str, Callable[[Any, Any], Any]]:
        w = self.weights

        def products(x: Any, y: Any) -> Any:
            """Computes products at several levels, with clear numbers and polynomials."""
            z = hg.relinearize(x * y) + w
            return hg.relinearize((z * (x - w)).shrink(2) * 3 - 11)

        def turned(x: Any, y: Any) -> Any:
            z = hg.relinearize(x * y)
            return hg.rotate_columns(hg.rotate_rows(z, 1) + hg.rotate_rows(z, -3) * w) - hg.rotate_rows(y, 2)

        def fresh(x: Any, y: Any) -> Any:
            """Computes on tensors that are stored as coefficients until their first operation."""
            return w + x - y

        return {"products": products, "turned": turned, "fresh": fresh}

    def same(self, found: Any, expected: Any) -> bool:
        """Returns whether words decrypt to the same values and have the same measured noise."""
        here, there = (self.secret.decrypt(t) for t in (found, expected))
        return np.array_equal(here, there) and self.secret.noise_budget(found) == self.secret.noise_budget(expected)


#: Gadgets: one prime per digit without special primes, and two digits with two special primes.
EXACT_SETS: dict[str, dict[str, Any]] = {
    "digits": {"log_q": 200, "special": 0, "plain_modulus": 40961},
    "special": {"log_q": 200, "special": 2, "plain_modulus": 40961},
    "w32": {"log_q": 150, "special": 1, "plain_modulus": 40961, "word_size": 32},
}


@pytest.mark.parametrize("gadget", EXACT_SETS)
@pytest.mark.parametrize(
    "device", places("cpu", "ref", "3*cpu", "cuda:0", "2*cuda:0", usual=("cpu", "ref", "3*cpu", "cuda:0"))
)
def test_bgv(device: str, gadget: str) -> None:
    owner = ExactOwner(device, **EXACT_SETS[gadget])
    for name, function in owner.functions().items():
        program = hg.program(function)
        z = program(owner.x, owner.y)
        for chips, switching in EXACT:
            run = hg.cinnamon.write(program, chips=chips, switching=switching).at(owner.server)
            for _ in range(2):
                found = run(x=owner.x, y=owner.y)["y"]
                assert owner.same(found, z), (name, chips, switching)
            assert (found.level, found.key_id) == (z.level, z.key_id)
        aggregated = hg.cinnamon.write(program, chips=3, switching="aggregate").run(owner.server, x=owner.x, y=owner.y)["y"]
        assert np.array_equal(owner.secret.decrypt(aggregated), owner.secret.decrypt(z))
        assert name != "fresh" or owner.same(aggregated, z)  # this program has no division
        again = aggregated + owner.y  # the result is a tensor like any other
        assert np.array_equal(owner.secret.decrypt(again), owner.secret.decrypt(z + owner.y))


def test_bgv_programs_run_with_other_keys(tmp_path: Path) -> None:
    """The text is parsed again, and keys are made for the parsed program."""
    owner = ExactOwner(**EXACT_SETS["special"])
    program = hg.program(owner.functions()["turned"])
    expected = owner.secret.decrypt(program(owner.x, owner.y))
    written = hg.cinnamon.write(program, chips=2)
    written.save(tmp_path)
    again = hg.cinnamon.load(tmp_path)
    other = hg.SecretKey.generate(owner.secret.parameters)
    made = other.evaluation_keys(relinearize=False, cinnamon=again)
    assert len(made.of_programs) == len(again.keys) == 5
    made.save(tmp_path / "keys.hg")
    server = hg.Server(hg.load(tmp_path / "keys.hg"))
    assert len(server.keys.of_programs) == 5
    x, y = (server.bind(other.encrypt(owner.secret.decrypt(t))) for t in (owner.x, owner.y))
    result = again.at(server, written.constants)(x=x, y=y)["y"]
    assert np.array_equal(other.decrypt(result), expected)


def test_bgv_refuses_mismatched_operands(owner: Owner) -> None:
    exact = ExactOwner(**EXACT_SETS["special"])
    program = hg.program(exact.functions()["turned"])
    program(exact.x, exact.y)
    written = hg.cinnamon.write(program)
    x, y = exact.x, exact.y
    with pytest.raises(hg.LevelError):
        written.run(exact.server, x=x.shrink(1), y=y)
    switched = hg.program(lambda x: x + x)
    switched(x.shrink(2))
    with pytest.raises(hg.ScaleError, match="factor"):
        hg.cinnamon.write(switched).run(exact.server, x=x)
    with pytest.raises(hg.MismatchError, match="schemes"):
        written.run(exact.server, x=owner.encrypted("x")[0], y=y)
    with pytest.raises(hg.MismatchError, match="parameter set"):
        written.at(owner.server)
    with pytest.raises(hg.ParameterError, match="written from a recording"):
        hg.cinnamon.Program.parse(written.files()).at(exact.server)
    narrow = exact.server.bind(exact.secret.encrypt([1, 2, 3], pad=True))
    with pytest.raises(hg.MismatchError, match="must have the packing"):
        written.run(exact.server, x=narrow, y=narrow)
    stranger = ExactOwner(**EXACT_SETS["special"])
    with pytest.raises(hg.WrongKeyError):
        written.run(exact.server, x=stranger.x, y=stranger.y)
    with pytest.raises(hg.MissingKeyError):
        written.at(hg.Server(exact.secret.evaluation_keys(rotations=[1])))
    several = hg.SecretKey.generate(hg.bgv.parameters(depth=1, plain_bits=40, slots=2**12))
    c = hg.Server(several.evaluation_keys()).bind(several.encrypt([1], pad=True))
    sums = hg.program(lambda c: c + c)
    sums(c)
    with pytest.raises(hg.ParameterError, match="of CKKS, or of BGV"):
        hg.cinnamon.write(sums)
