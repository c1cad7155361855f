"""Random programs and values give correct results, noise within its bound, and the same bits on every device."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import heliograph as hg
import rigs
from heliograph import _core
from places import places
from rigs import N

settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("suite")


class World:
    """The keys of one set on the default device."""

    def __init__(self, log_q: int, special: int, moduli: list[int], word_size: int, scheme: str = "bfv") -> None:
        spec = _core.exact.make_spec(N, log_q, special, moduli, word_size, 0, True, scheme)
        self.parameters = hg.bfv.Parameters(_core.exact.Parameters(spec))
        self.secret = hg.SecretKey.generate(self.parameters)
        self.keys = self.secret.evaluation_keys(rotations=[1, 2, -1], columns=True)
        self.server = hg.Server(self.keys)
        self.modulus = self.parameters.plain_modulus
        self.rng = np.random.default_rng(11)

    def values(self, shape: tuple[int, ...], bound: int | None = None) -> Any:
        """Returns random integers within the set's range."""
        bound = bound or self.modulus // 2
        return self.rng.integers(-bound, bound, (*shape, N), endpoint=True)

    def encrypted(self, values: Any, public: bool = False) -> tuple[hg.Tensor, rigs.Clear]:
        """Returns a tensor and its clear values."""
        key = self.secret.public_key() if public else self.secret
        return self.server.bind(key.encrypt(values)), rigs.Clear(values, self.modulus, "slots")


WORLDS = {
    "w64": (150, 1, [65537], 64),
    "w64 several primes": (160, 2, [12289, 18433], 64),
    "w64 no special prime": (150, 0, [12289], 64),
    "w32": (140, 2, [65537], 32),
    "bgv": (250, 1, [65537], 64, "bgv"),
    "bgv several primes": (250, 2, [12289, 18433], 64, "bgv"),
    "bgv w32, no special prime": (250, 0, [12289], 32, "bgv"),
}


@functools.cache
def world(name: str) -> World:
    """Returns the shared World of a set."""
    return World(*WORLDS[name])


reference = rigs.Reference(None, None, None, None, 0, 0)

# Plaintexts of several structures: one nonzero slot, equal slots, a mask, small values, and values of the full range.
PLAIN = [
    np.eye(1, N, 7, dtype=int)[0],
    np.full(N, 3),
    np.arange(N) % 2,
    np.arange(N) - 512,
    np.random.default_rng(1).integers(-6000, 6000, N),
]

# Steps of random programs, for tensors and for clear values: f(operations, first operand, second operand, a small integer).
STEPS: dict[str, rigs.Step] = {
    **rigs.STEPS,
    "add integer": lambda o, a, b, k: a + (k - 500),
    "integer less": lambda o, a, b, k: (k - 500) - a,
    "multiply integer": lambda o, a, b, k: a * (k % 19 - 9),
    "multiply by zero": lambda o, a, b, k: a * np.array([0, k]),
    "multiply plaintext": lambda o, a, b, k: a * o.encoded(a, PLAIN[k % len(PLAIN)]),
    "add plaintext": lambda o, a, b, k: a + o.encoded(a, PLAIN[k % len(PLAIN)]),
    "duplicate rows": lambda o, a, b, k: o.matmul(np.array([[k % 7, 1], [k % 7, 1]]), a),
}
PROGRAMS = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1000)), min_size=1, max_size=7)


def check_step(w: World, tensor: hg.Tensor, clear: rigs.Clear) -> None:
    """Checks that the noise estimate is a bound, and that decryption is correct while the estimate is positive."""
    estimate, measured = tensor.noise_budget, w.secret.noise_budget(tensor)
    assert estimate is not None
    assert measured >= estimate - 0.01
    if estimate > 0:
        np.testing.assert_array_equal(w.secret.decrypt(tensor), clear.centred())


@pytest.mark.parametrize("name", WORLDS)
@settings(max_examples=25)
@given(program=PROGRAMS, public=st.booleans(), bound=st.sampled_from([1, 50, None]))
def test_random_programs_are_correct(name: str, program: list[tuple[str, int]], public: bool, bound: int | None) -> None:
    """Results equal the clear computation as long as the noise estimate is positive."""
    w = world(name)
    engine = rigs.Engine(*[None] * 4, 0, 0)  # type: ignore[arg-type]
    pool = [w.encrypted(w.values((2,), bound), public) for _ in range(2)]
    for step, k in program:
        (a, clear_a), (b, clear_b) = pool[k % len(pool)], pool[k // 7 % len(pool)]
        result = STEPS[step](engine, a, b, k)
        if result._core.noise_budget <= 0:
            check_step(w, result, clear_a)
            return
        clear = STEPS[step](reference, clear_a, clear_b, k)
        check_step(w, result, clear)
        pool.append((result, clear))


@pytest.mark.parametrize("name", WORLDS)
def test_sums_of_one_ciphertext_are_bounded(name: str) -> None:
    """In sums of one ciphertext the noise is dependent. Dependent noise grows with the sum of the weights and not with the
    root of the sum of squares; the estimate includes this.

    """
    w = world(name)
    one, clear = w.encrypted(w.values((1,)))
    many = one.broadcast_to((64,))
    check_step(w, hg.sum(many), rigs.Clear(64 * clear.values[0], w.modulus, "slots"))
    copies = hg.concatenate([one] * 64)
    check_step(w, hg.sum(copies), rigs.Clear(64 * clear.values[0], w.modulus, "slots"))
    twice = hg.matmul(np.ones((64, 1), dtype=int), one)
    check_step(w, hg.sum(twice), rigs.Clear(64 * clear.values[0], w.modulus, "slots"))
    products = hg.matmul(np.ones((1, 64), dtype=int), many * copies)
    check_step(w, products, rigs.Clear(64 * clear.values**2, w.modulus, "slots"))
    x, _ = w.encrypted(w.values((3,)))
    grid = hg.stack([x, x])  # each ciphertext occurs twice in the sum
    assert hg.sum(grid * grid, 0).noise_budget <= w.secret.noise_budget(hg.sum(grid * grid, 0))


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
@pytest.mark.parametrize("t", [2, 4, 65537])
def test_structured_plaintexts_are_bounded(t: int, scheme: str) -> None:
    """If the noise of plaintexts is concentrated on few embeddings, products grow fastest; the estimate bounds such
    products.

    """
    spec = _core.exact.make_spec(N, 150, 0, [t], 64, 0, True, scheme)
    secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))
    rng = np.random.default_rng(4)
    for b in (np.full(N, t // 2), np.where(np.arange(N) % 2 == 0, 1, t // 2), rng.integers(0, t // 2, N, endpoint=True)):
        x = secret.encrypt(np.zeros(N, dtype=int), coefficients=0)
        centred = np.where(2 * b >= t, b - t, b)
        plain = hg.encode(secret.parameters, b if t == 2 else centred, coefficients=0)
        norm = np.abs(np.fft.fft(centred * np.exp(1j * np.pi * np.arange(N) / N))).max()
        while x.noise_budget:
            before = x._core.noise_budget
            x = x * plain
            assert before - x._core.noise_budget == pytest.approx(np.log2(norm), abs=1e-6)
            assert secret.noise_budget(x) >= x.noise_budget - 0.01


@pytest.mark.parametrize("name", WORLDS)
def test_repeated_squaring_ends_in_a_noise_error(name: str) -> None:
    """A value is squared repeatedly until a NoiseError is raised; before that every result is correct."""
    w = world(name)
    tensor, clear = w.encrypted(w.values((1,)))
    for _ in range(20):
        tensor, clear = hg.square(tensor), clear * clear
        check_step(w, tensor, clear)
        if w.secret.noise_budget(tensor) < 0.02:
            break
    with pytest.raises(hg.NoiseError):
        w.secret.decrypt(tensor)
    assert tensor.noise_budget == 0


# Encryption

MODULI = [2, 3, 4, 255, 256, 12289, 65537, 1 << 40, (1 << 59) + 1, (1 << 60) - 93]


@functools.cache
def coefficient_world(t: int, word_size: int, scheme: str) -> hg.SecretKey:
    """Returns a key of a set for any plaintext modulus."""
    spec = _core.exact.make_spec(N, 110, 1, [t], word_size, 0, True, scheme)
    return hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))


@pytest.mark.parametrize("word_size", [64, 32])
@settings(max_examples=40)
@given(data=st.data())
def test_decryption_inverts_encryption(word_size: int, data: st.DataObject) -> None:
    """Decryption inverts encryption for any plaintext modulus, width and key, also at the ends of the range."""
    t = data.draw(st.sampled_from(MODULI))
    secret = coefficient_world(t, word_size, data.draw(st.sampled_from(["bfv", "bgv"])))
    low, high = (0, 1) if t == 2 else (-(t // 2), (t - 1) // 2)
    edges = st.sampled_from([low, low + 1, -1 if low < 0 else 0, 0, 1, high - 1, high])
    values = data.draw(st.lists(edges | st.integers(low, high), min_size=1, max_size=9))
    shape = data.draw(st.sampled_from([(), (1,), (2,), (2, 1, 2)]))
    array = np.broadcast_to(np.array(values, dtype=np.int64), (*shape, len(values)))
    key = data.draw(st.sampled_from([secret, secret.public_key()]))
    tensor = key.encrypt(array, coefficients=-1, pad=True)
    assert tensor.shape == shape
    assert tensor.slots == len(values)
    np.testing.assert_array_equal(secret.decrypt(tensor), array)


@settings(max_examples=30)
@given(name=st.sampled_from(sorted(WORLDS)), width=st.integers(1, N), axis=st.integers(0, 2), seed=st.integers(0, 99))
def test_any_axis_may_be_the_slots(name: str, width: int, axis: int, seed: int) -> None:
    """Decrypted values have their slot axis at the same position as the encrypted values."""
    w = world(name)
    shape = [1, 2]
    shape.insert(axis, width)
    half = w.modulus // 2
    values = np.random.default_rng(seed).integers(-half, half, shape, endpoint=True)
    tensor = w.secret.encrypt(values, slots=axis, pad=True)
    assert tensor.shape == (1, 2)
    np.testing.assert_array_equal(w.secret.decrypt(tensor, slots=axis), values)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, bool])
def test_every_integer_dtype(dtype: Any) -> None:
    """Every integer dtype is accepted, and no value is made narrower."""
    w = world("w64")
    values = np.arange(N).astype(dtype) if dtype is not bool else np.arange(N) % 2 == 0
    np.testing.assert_array_equal(w.secret.decrypt(w.secret.encrypt(values)), values.astype(np.int64))


def test_wide_values_of_several_primes() -> None:
    """For a plaintext modulus beyond 64 bits, decryption returns exact Python integers."""
    moduli = _core.exact.batching_primes(N, 90, 3)
    w = World(150, 1, moduli, 64)
    values = np.array([-(2**62), 2**62, -1, 0, 1, 2**63 - 1, -(2**63)])
    x = w.server.bind(w.secret.encrypt(values, pad=True))
    decrypted = w.secret.decrypt(x + x)
    assert decrypted.dtype == object
    assert list(decrypted) == [2 * int(v) for v in values]


# Files


@settings(max_examples=20)
@given(name=st.sampled_from(sorted(WORLDS)), program=PROGRAMS, seed=st.integers(0, 99))
def test_saved_tensors_are_equal_when_loaded(name: str, program: list[tuple[str, int]], seed: int) -> None:
    """from_bytes(to_bytes(x)) equals x: it has the same bytes, decrypts to the same values, and gives the same results in
    computations.

    """
    w = world(name)
    engine = rigs.Engine(*[None] * 4, 0, 0)  # type: ignore[arg-type]
    a, _ = w.encrypted(w.values((2,), 9))
    for step, k in program[:3]:
        a = STEPS[step](engine, a, a, k)
    assume(a.noise_budget > 0)
    data = a.to_bytes()
    back = w.server.from_bytes(data)
    assert back.to_bytes() == data
    assert (back.shape, back.degree, back.level, back.slots, back.key_id) == (a.shape, a.degree, a.level, a.slots, a.key_id)
    np.testing.assert_array_equal(w.secret.decrypt(back), w.secret.decrypt(a))
    assert (back + a).to_bytes() == (a + a).to_bytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1, 1, 1), (2, 3)])
def test_shapes_survive_a_file(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Scalars, empty tensors and tensors with many axes can be saved and loaded."""
    w = world("w64")
    tensor = w.secret.encrypt(np.ones((*shape, N), dtype=int))
    tensor.save(tmp_path / "x.hg")
    back = hg.load(tmp_path / "x.hg")
    assert isinstance(back, hg.Tensor)
    assert back.shape == shape
    assert back.noise_budget == tensor.noise_budget or tensor.size == 0
    np.testing.assert_array_equal(w.secret.decrypt(back), np.ones((*shape, N)))


@pytest.mark.parametrize("name", ["w32", "bgv"])
def test_keys_work_after_loading(name: str, tmp_path: Path) -> None:
    """Every key works in the same way after saving and loading."""
    w = world(name)
    w.secret.save(tmp_path / "secret")
    w.keys.save(tmp_path / "keys")
    public = w.secret.public_key()
    public.save(tmp_path / "public")
    secret, keys, loaded = hg.SecretKey.load(tmp_path / "secret"), hg.load(tmp_path / "keys"), hg.load(tmp_path / "public")
    assert isinstance(keys, hg.EvaluationKeys)
    assert isinstance(loaded, hg.PublicKey)
    assert secret.id == keys.id == loaded.id == w.secret.id
    assert keys.to_bytes() == w.keys.to_bytes() == hg.EvaluationKeys.from_bytes(w.keys.to_bytes()).to_bytes()
    assert loaded.to_bytes() == public.to_bytes() == hg.PublicKey.from_bytes(public.to_bytes()).to_bytes()
    assert (keys.relinearize, keys.rotations, keys.columns) == (True, [1, 2, N // 2 - 1], True)
    x = hg.Server(keys).bind(loaded.encrypt(np.arange(N)))
    turned = hg.rotate_rows(hg.relinearize(x * x), 1)
    here = hg.rotate_rows(hg.relinearize(w.server.bind(x) * x), 1)
    assert turned.to_bytes() == here.to_bytes()
    expected = np.roll(np.arange(N).reshape(2, -1) ** 2, -1, 1).ravel()
    centred = rigs.Clear(expected, w.modulus, "slots").centred()
    np.testing.assert_array_equal(w.secret.decrypt(turned), centred)
    np.testing.assert_array_equal(secret.decrypt(turned), centred)


# The same bits on every device


SOME = ("w64 digits", "w32")


def bits_on(device: str, sets: tuple[str, ...] = (), **environment: str) -> dict[str, dict[str, str]]:
    """Returns the digests of `bits.py` on another device, computed in a separate process, for some sets or for all sets."""
    env = os.environ | {"HELIOGRAPH_DEVICE": device} | environment
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, str(Path(__file__).with_name("bits.py")), *sets]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@functools.cache
def bits_of_ref(sets: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
    """Returns the digests of ref, which defines the bits."""
    return bits_on("ref", sets)


LEVELS = [d for d in rigs.open_devices() if d.startswith("cpu:")]
GPUS = [d for d in rigs.open_devices() if d == "cuda:0"]


@pytest.mark.full
@pytest.mark.parametrize(("device", "threads"), [*((d, t) for d in LEVELS for t in ("1", "3")), *((d, "1") for d in GPUS)])
def test_same_bits_everywhere(device: str, threads: str) -> None:
    """Every operation gives the same bytes in both word sizes, on any device and number of threads."""
    found = bits_on(device, HELIOGRAPH_THREADS=threads)
    assert found == bits_of_ref()


@pytest.mark.parametrize(("device", "threads"), [(LEVELS[0], "3"), (LEVELS[-1], "1"), *((d, "1") for d in GPUS)])
def test_same_bits_on_extreme_instruction_sets(device: str, threads: str) -> None:
    """The lowest and the highest instruction set and a GPU give the same bits, for one parameter set of each word size."""
    found = bits_on(device, SOME, HELIOGRAPH_THREADS=threads)
    assert set(found) == set(SOME)
    assert found == bits_of_ref(SOME)


def test_the_environment_sets_instruction_set_and_threads() -> None:
    """HELIOGRAPH_CPU and HELIOGRAPH_THREADS have an effect; values that are not available are refused."""

    def run(code: str, **environment: str) -> str:
        path = os.pathsep.join(p for p in sys.path if p)
        env = os.environ | {"HELIOGRAPH_DEVICE": "cpu", "PYTHONPATH": path} | environment
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    devices = "import heliograph as hg; print(hg.devices())"
    assert "3 threads, 64-bit scalar" in run(devices, HELIOGRAPH_CPU="scalar", HELIOGRAPH_THREADS="3")
    assert "ref" in run(devices, HELIOGRAPH_DEVICE="ref")
    wrong = {"HELIOGRAPH_CPU": "avx1024", "HELIOGRAPH_THREADS": "0", "HELIOGRAPH_DEVICE": "abacus"}
    attempts = f"""
import os
import heliograph as hg

usual = dict(os.environ)
for name, value in {wrong}.items():
    os.environ[name] = value
    try:
        print(hg.devices())
    except hg.ParameterError as error:
        print("refused:", value in str(error))
    os.environ.clear()
    os.environ.update(usual)
"""
    assert run(attempts) == "refused: True\n" * 3


@pytest.mark.parametrize("name", ["w64", "bgv"])
def test_determinism(name: str) -> None:
    """If an operation is repeated on the same operands, it gives the same bytes. Two encryptions differ."""
    w = world(name)
    x, y = w.encrypted(w.values((9,)))[0], w.encrypted(w.values((9,)))[0]
    for f in (lambda: x * y, lambda: hg.rotate_rows(x, [1, 2]), lambda: hg.relinearize(x * x), lambda: hg.shrink(x, 1)):
        assert f().to_bytes() == f().to_bytes()
    values = w.values((1,))
    assert w.secret.encrypt(values).to_bytes() != w.secret.encrypt(values).to_bytes()


@pytest.mark.parametrize("name", ["w64-digits", "bgv-digits"])
@pytest.mark.parametrize("device", places())
def test_a_batch_has_the_bits_of_single_calls(device: str, name: str) -> None:
    """A batch that is computed in one call has the bits of single calls."""
    secret = rigs.secret_for_test(rigs.parameters_on(rigs.specs(name), device))
    keys = secret.evaluation_keys(rotations=[1, 2], columns=True)
    server = hg.Server(keys)
    values = np.arange(-1000, 1000, 2000 / (70 * N))[: 70 * N].astype(int).reshape(7, 10, N)
    x = server.bind(secret.encrypt(values))
    y = server.bind(secret.encrypt(values[0, 0]))
    p = server.encode(values[0, 1])
    operations: list[Callable[[hg.Tensor], hg.Tensor]] = [
        lambda a: a * y,
        lambda a: hg.square(a),
        lambda a: hg.relinearize(a * y),
        lambda a: hg.rotate_rows(a, 2),
        lambda a: hg.rotate_rows(a, [1, 2])[1],
        lambda a: a * p + p,
        lambda a: hg.shrink(a, 1),
        lambda a: a * 3 - 1,
    ]
    for operation in operations:
        whole = operation(x)
        strided = operation(x.transpose([1, 0])[::2])
        for at in [(0, 0), (3, 7), (6, 9)]:
            one = operation(x[at]).to_bytes()
            assert whole[at].to_bytes() == one
            if at[1] % 2 == 0:
                assert strided[at[1] // 2, at[0]].to_bytes() == one
