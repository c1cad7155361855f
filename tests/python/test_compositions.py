"""Composed rotations have the right values, the fewest key switches, valid noise bounds, the same bits everywhere, and clear
errors.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core

N = 1024
SCHEMES = ("bfv", "bgv", "ckks", "sparse", "padded")
DEVICES = (
    "ref",
    "cpu",
    "cpu:scalar",
    "2*cpu",
    "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6",
    "2*cpu/limb/uncalibrated",
    "cuda:0",
    "rtl",
)


@functools.cache
def parameters(scheme: str) -> Any:
    """Returns a small insecure set by its name. CKKS sets have all slots, 16 slots whose values repeat, or 300 slots
    followed by zeros.

    """
    name, short = scheme.removesuffix("/w32"), scheme.endswith("/w32")
    if name in ("bfv", "bgv"):
        return hg.bfv.Parameters(
            _core.exact.Parameters(
                rigs.small_spec(168 if short else 200, 2 if short else 1, [65537], 32 if short else 64, name)
            )
        )
    slots = {"ckks": 0, "sparse": 16, "padded": 300}[name]
    numbers = {"log_scale": 48, "base_bits": 58, "special": 5} if short else {"log_scale": 40, "base_bits": 50, "special": 2}
    return hg.ckks.parameters(n=N, levels=4, **numbers, slots=slots, word_size=32 if short else 64, insecure=True)


@functools.cache
def secret_of(scheme: str) -> Any:
    """Returns a secret key of the set."""
    return hg.SecretKey.generate(parameters(scheme))


def period_of(p: Any) -> int:
    """Returns the period of the set's rotations."""
    return int(getattr(p, "period", 0) or p.n // 2)


def rotate(x: Any, steps: Any, **options: Any) -> Any:
    """Rotates by the function of the scheme."""
    return hg.ckks.rotate(x, steps, **options) if isinstance(x, hg.ckks.Tensor) else hg.rotate_rows(x, steps, **options)


def values_of(p: Any) -> Any:
    """Returns the values of one ciphertext."""
    if isinstance(p, hg.ckks.Parameters):
        return np.random.default_rng(1).normal(size=p.slots)
    return np.random.default_rng(1).integers(-99, 99, p.slots)


def rotated(p: Any, values: Any, step: int) -> Any:
    """Returns the rotated values, computed in clear."""
    if isinstance(p, hg.ckks.Parameters):
        places = np.zeros(p.period)
        places[: len(values)] = values
        return np.roll(places, -step)
    return np.roll(values.reshape(2, -1), -step, -1).reshape(-1)


def require_values(secret: Any, y: Any, want: Any) -> None:
    """Checks that a tensor decrypts to `want` within its own noise bound."""
    found = secret.decrypt(y)
    if isinstance(y, hg.ckks.Tensor):
        worst = float(np.abs(found - want[: len(found)]).max())
        assert worst < 1e-6
        assert y.precision is not None
        assert worst <= 2.0**-y.precision + 1e-12
    else:
        assert (found == want).all()
        assert 0 < y.noise_budget <= secret.noise_budget(y)


def fewest(steps: Sequence[int], period: int) -> dict[int, int]:
    """Returns the fewest steps for each sum, by breadth-first search."""
    found, waiting = {0: 0}, deque([0])
    while waiting:
        at = waiting.popleft()
        for step in steps:
            to = (at + step) % period
            if to not in found:
                found[to] = found[at] + 1
                waiting.append(to)
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_compositions_of_random_keys_have_the_fewest_key_switches(scheme: str) -> None:
    p, secret, rng = parameters(scheme), secret_of(scheme), np.random.default_rng(7)
    period, values = period_of(p), values_of(p)
    for count in (1, 2, 3, 5):
        made = secret.evaluation_keys(relinearize=False, rotations=[int(s) for s in rng.integers(-period, period, count)])
        keys = hg.from_bytes(made.to_bytes())  # keys in the form in which a server loads them
        want = fewest(keys.rotations, period)
        for step in range(period):
            composition = keys.composition(step)
            assert (composition is None) == (step not in want)
            if composition is not None:
                assert len(composition) == want[step]
                assert set(composition) <= set(keys.rotations)
                assert sum(composition) % period == step
        assert keys.reach[1] == max(want.values())
        x = hg.Server(keys).bind(secret.encrypt(values, pad=True))
        near = [s for s, switches in want.items() if switches <= 3]
        for step in (int(s) for s in rng.choice(near, 3)):
            y = rotate(x, step - period, compose=True)
            assert (secret.decrypt(y) == secret.decrypt(rotate(x, step + 2 * period, compose=True))).all()
            found = secret.decrypt(y)
            assert np.allclose(found, rotated(p, values, step)[: len(found)], atol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_composed_rotations_have_the_values_of_direct_ones(scheme: str) -> None:
    p, secret = parameters(scheme), secret_of(scheme)
    values, few = values_of(p), [1, 2, 4, 8, -1]
    steps = [5, 0, -3, 7, 5, period_of(p) + 3, -1, 11]
    keys = secret.evaluation_keys(relinearize=False, rotations=few)
    direct = hg.Server(secret.evaluation_keys(relinearize=False, rotations=steps)).bind(secret.encrypt(values, pad=True))
    composed = hg.Server(keys).bind(+direct)
    with_keys, without = rotate(direct, steps), rotate(composed, steps, compose=True)
    assert without.shape == with_keys.shape
    for i, step in enumerate(steps):
        assert len(keys.composition(step)) == fewest(keys.rotations, period_of(p))[step % period_of(p)]
        require_values(secret, without[i], rotated(p, values, step))
        require_values(secret, with_keys[i], rotated(p, values, step))
    a, b = ("precision", "bounds") if scheme not in ("bfv", "bgv") else ("noise_budget", "bound")
    assert getattr(without, a) < getattr(with_keys, a)
    assert getattr(without, b) == getattr(with_keys, b)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_composition_has_the_bits_of_its_rotations(scheme: str) -> None:
    """A composed rotation has the bits of its single rotations: computed alone, in a group, by a server, and in programs."""
    p, secret = parameters(scheme), secret_of(scheme)
    keys = secret.evaluation_keys(relinearize=False, rotations=[1, 2, 4, -8])
    x = hg.Server(keys).bind(secret.encrypt(values_of(p), pad=True))
    steps = [5, 7, -5, 2]
    many = rotate(x, steps, compose=True)
    server = hg.Server(keys, compose_rotations=True)
    z = server.bind(+x)
    recorded = hg.program(lambda t: rotate(t, steps), z)
    assert recorded(z).to_bytes() == many.to_bytes()
    assert rotate(z, steps).to_bytes() == many.to_bytes()
    for i, step in enumerate(steps):
        one = x
        for key in keys.composition(step):
            one = rotate(one, key)
        alone = rotate(x, step, compose=True)
        assert (secret.decrypt(many[i]) == secret.decrypt(one)).all()
        assert (secret.decrypt(alone) == secret.decrypt(one)).all()
        if isinstance(x, hg.ckks.Tensor):
            assert alone.precision == one.precision
        else:
            assert alone.noise_budget == one.noise_budget
            assert alone.to_bytes() == one.to_bytes()


def test_each_key_switch_adds_noise_to_the_bound() -> None:
    for scheme in ("bfv", "bgv", "ckks"):
        secret = secret_of(scheme)
        x = hg.Server(secret.evaluation_keys(rotations=[1])).bind(secret.encrypt(values_of(parameters(scheme))))
        told = [
            y.precision if isinstance(y, hg.ckks.Tensor) else y.noise_budget
            for y in (rotate(x, step, compose=True) for step in (1, 2, 3, 4, 8))
        ]
        assert all(a > b for a, b in itertools.pairwise(told)), told
        of_all = rotate(x, [1, 8], compose=True)  # all results have the bound of the longest composition
        assert (of_all.precision if scheme == "ckks" else of_all.noise_budget) == told[-1]


def _bits(scheme: str, device: str) -> list[bytes]:
    """Returns the bytes of some results on a device, from a fixed seed."""
    p = parameters(scheme)
    on = type(p)(p._core.on_device(device))
    kind = _core.ckks.SecretKey if isinstance(p, hg.ckks.Parameters) else _core.exact.SecretKey
    secret = hg.SecretKey(kind.generate_for_test(on._core, rigs.SEED))
    keys = secret.evaluation_keys(relinearize=False, rotations=[1, 2, 4, -8])
    x = hg.Server(keys, compose_rotations=True).bind(secret.encrypt([values_of(p)] * 3, pad=True))
    found = [rotate(x, [5, -3, 0, 5]), rotate(x[0], 7)]
    if scheme.startswith(("ckks", "sparse")):
        found.append(hg.ckks.LinearTransform(on, diagonals(p.slots)) @ x)
    return [y.to_bytes() for y in found]


def diagonals(size: int) -> Any:
    """Returns a matrix with nine nonzero diagonals."""
    return sum(np.roll(np.diag(np.random.default_rng(d).normal(size=size)), d, axis=1) for d in range(9))


@functools.cache
def _reference(scheme: str) -> list[bytes]:
    return _bits(scheme, "ref")


@pytest.mark.parametrize(
    ("scheme", "device"),
    [
        pytest.param(scheme, device, marks=[pytest.mark.full] if device == "rtl" and scheme != "bfv/w32" else [])
        for scheme in (*SCHEMES, "bfv/w32", "bgv/w32", "ckks/w32", "sparse/w32")
        for device in DEVICES
        if device != "ref" and (device != "rtl" or scheme.endswith("w32"))
    ],
)
def test_bits_are_the_same_on_every_device(scheme: str, device: str) -> None:
    try:
        parameters(scheme)._core.on_device(device)
    except (hg.ParameterError, hg.DeviceError):
        pytest.skip(f"device {device} is not available or does not support this word size")
    assert _bits(scheme, device) == _reference(scheme)


@pytest.mark.parametrize("scheme", ["ckks", "sparse", "padded"])
def test_matrices_and_sums_use_the_servers_setting(scheme: str) -> None:
    p, secret = parameters(scheme), secret_of(scheme)
    values = values_of(p)
    keys = secret.evaluation_keys(rotations=[1, 2, 4, 8, -16, 64, 256])
    x = hg.Server(keys).bind(secret.encrypt(values, pad=True))
    z = hg.Server(keys, compose_rotations=True).bind(+x)
    entries = diagonals(p.slots)
    layer = hg.ckks.LinearTransform(p, entries)
    assert not set(layer.rotations) <= set(keys.rotations)
    with pytest.raises(hg.MissingKeyError, match=r"lack the rotations .*compose_rotations=True"):
        layer @ x
    direct = layer @ hg.Server(secret.evaluation_keys(for_=layer)).bind(+x)
    found = layer @ z
    require_values(secret, found, entries @ values)
    assert found.precision < direct.precision
    assert (found.level, found.scale, found.bounds) == (direct.level, direct.scale, direct.bounds)
    several = layer @ hg.Server(keys, compose_rotations=True).bind(secret.encrypt([values, -values], pad=True))
    assert np.allclose(secret.decrypt(several), [entries @ values, -(entries @ values)], atol=1e-6)
    total = hg.sum(z, axis="slots")
    assert np.allclose(secret.decrypt(total), values.sum(), atol=1e-6)
    assert np.allclose(secret.decrypt(hg.ckks.mean(z)), values.mean(), atol=1e-6)
    assert np.allclose(secret.decrypt(hg.ckks.var(z)), values.var(), atol=1e-6)
    recorded = hg.program(lambda t: layer @ t, z)
    assert recorded(z).to_bytes() == found.to_bytes()


def test_giant_steps_are_composed() -> None:
    """For a full matrix, the rotations of baby and giant steps are composed of other rotations."""
    p, secret = parameters("sparse"), secret_of("sparse")
    matrix = np.random.default_rng(3).normal(size=(16, 16))
    for rotations in ([1], [1, 4], [3], [-1, 2], [5, 8]):
        z = hg.Server(secret.evaluation_keys(rotations=rotations), compose_rotations=True).bind(secret.encrypt(values_of(p)))
        for baby in (0, 2, 4, 16):
            layer = hg.ckks.LinearTransform(p, matrix, baby=baby)
            require_values(secret, layer @ z, matrix @ values_of(p))


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_sums_over_both_rows_use_the_servers_setting(scheme: str) -> None:
    p, secret = parameters(scheme), secret_of(scheme)
    values = values_of(p)
    keys = secret.evaluation_keys(rotations=[1, 4, 16, 64, 256], columns=True)
    z = hg.Server(keys, compose_rotations=True).bind(secret.encrypt(values))
    require_values(secret, hg.sum(z, axis="slots"), np.full(p.slots, values.sum()))
    assert (secret.decrypt(hg.rotate_columns(z)) == np.roll(values, p.slots // 2)).all()
    half = hg.Server(secret.evaluation_keys(rotations=[1, 4, 16, 64, 256]), compose_rotations=True).bind(+z)
    with pytest.raises(hg.MissingKeyError, match="a key to exchange the rows"):
        hg.sum(half, axis="slots")
    with pytest.raises(hg.MissingKeyError, match="column rotation"):
        hg.rotate_columns(half)


def test_forecasts_and_programs_count_every_key_switch() -> None:
    secret = secret_of("ckks")
    z = hg.Server(secret.evaluation_keys(rotations=[1, 2, 4]), compose_rotations=True).bind(
        secret.encrypt(values_of(parameters("ckks")))
    )
    for step, switches in ((4, 1), (5, 2), (7, 3)):
        assert hg.forecast(lambda x, s=step: hg.ckks.rotate(x, s), z).calls["key_switch"] == switches
    program = hg.program(lambda x: hg.ckks.rotate(x, 7), z)
    assert secret.evaluation_keys(for_=program).rotations == [1, 2, 4]  # the keys that the recorded program uses
    loaded = hg.Program.from_bytes(program.to_bytes())
    assert loaded(z).to_bytes() == program(z).to_bytes()
    strict = hg.Server(secret.evaluation_keys(rotations=[1, 2, 4])).bind(+z)
    with pytest.raises(hg.MissingKeyError, match="rotation 7 is not among the keys"):
        program(strict)  # is recorded again: this server does not compose
    careful = hg.Server(z._keys, compose_rotations=True, costs=hg.Costs(nbytes=1))
    with pytest.raises(hg.LimitError):
        careful.compute(lambda x: hg.ckks.rotate(x, 7), careful.bind(+z))


def test_for_gives_a_composed_rotation_its_own_key() -> None:
    secret = secret_of("bfv")
    assert secret.evaluation_keys(for_=lambda x: hg.rotate_rows(x, 5, compose=True)).rotations == [5]


def test_errors_name_compose_and_missing_keys() -> None:
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[1, 2, 4])
    x = hg.Server(keys).bind(secret.encrypt(values_of(parameters("bfv"))))
    with pytest.raises(
        hg.MissingKeyError,
        match=r"rotation 5 is not among the keys; they have 1, 2, 4\. Make keys with evaluation_keys\(rotations=\[5, \.\.\.\]\); "
        r"or pass compose=True: these keys compose it by 2 key switches, instead of 1 with its own key$",
    ):
        hg.rotate_rows(x, 5)
    with pytest.raises(
        hg.MissingKeyError, match=r"rotations=\[1, 3, 7\]\).*compose=True: .* by 5 key switches, at most 3 for one rotation"
    ):
        hg.rotate_rows(x, [3, 1, 7])
    composing = hg.Server(keys, compose_rotations=True).bind(+x)
    with pytest.raises(hg.MissingKeyError, match="compose=True"):
        hg.rotate_rows(composing, 5, compose=False)
    few = hg.Server(keys, compose_rotations=2).bind(+x)
    assert (secret.decrypt(hg.rotate_rows(few, 6)) == rotated(parameters("bfv"), values_of(parameters("bfv")), 6)).all()
    with pytest.raises(hg.MissingKeyError, match="pass compose=3: these keys compose it by 3 key switches"):
        hg.rotate_rows(few, 7)
    assert hg.rotate_rows(few, 7, compose=True).shape == ()


def test_without_a_composition_the_error_names_the_cheapest_key() -> None:
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[4, 8])
    x = hg.Server(keys, compose_rotations=True).bind(secret.encrypt(values_of(parameters("bfv"))))
    with pytest.raises(
        hg.MissingKeyError, match=r"they have 4, 8\. .*rotations=\[3, \.\.\.\]\); these keys do not compose it$"
    ):
        hg.rotate_rows(x, 3)
    with pytest.raises(hg.MissingKeyError, match=r"or add one key, for rotation 1, and pass compose=True$") as caught:
        hg.rotate_rows(x, [1, 2, 3, 4, 8, 12])
    assert "rotations 1, 2, 3 are not" in str(caught.value)  # 12 is composed of 4 and 8
    more = hg.Server(secret.evaluation_keys(rotations=[4, 8, 1])).bind(+x)
    y = hg.rotate_rows(more, [1, 2, 3, 4, 8, 12], compose=True)
    assert (secret.decrypt(y[5]) == rotated(parameters("bfv"), values_of(parameters("bfv")), 12)).all()
    none = hg.Server(secret.evaluation_keys(rotations=[])).bind(+x)
    with pytest.raises(hg.MissingKeyError, match="they have none"):
        hg.rotate_rows(none, 1, compose=True)


def test_true_allows_no_endless_composition() -> None:
    """With one key, any rotation could be composed of hundreds of key switches; compose_rotations=True limits their number."""
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[1])
    x = hg.Server(keys, compose_rotations=True).bind(secret.encrypt(values_of(parameters("bfv"))))
    assert hg.rotate_rows(x, 32).shape == ()
    with pytest.raises(hg.MissingKeyError, match="pass compose=500: these keys compose it by 500 key switches"):
        hg.rotate_rows(x, 500)
    y = hg.rotate_rows(x, 500, compose=500)
    assert (secret.decrypt(y) == rotated(parameters("bfv"), values_of(parameters("bfv")), 500)).all()


def test_compositions_of_many_keys() -> None:
    """With many keys, each step gets the composition of the fewest switches. A test in tests/cpp counts the operations of
    this search.
    """
    secret = secret_of("ckks")
    keys = secret.evaluation_keys(relinearize=False, rotations=range(2, 402, 2))
    assert keys.composition(401) is None
    for step in range(512):
        found = keys.composition(step)
        assert (found is None) == (step % 2 == 1)
        if found is not None:
            assert sum(found) % 512 == step
            assert len(found) == (0 if step == 0 else 1 if step <= 400 else 2)


@pytest.mark.parametrize("wrong", ["yes", 1.5, [1], np.ones(2)])
def test_an_invalid_compose_is_refused(wrong: Any) -> None:
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[1])
    x = hg.Server(keys).bind(secret.encrypt(values_of(parameters("bfv"))))
    with pytest.raises(hg.DtypeError, match="compose must be True, False or the maximum key switches"):
        hg.rotate_rows(x, 2, compose=wrong)
    with pytest.raises(hg.DtypeError, match="compose must be"):
        hg.Server(keys, compose_rotations=wrong)


def test_an_invalid_limit_of_key_switches_is_refused() -> None:
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[1])
    for wrong in (0, -3, 1 << 80):
        with pytest.raises(hg.ParameterError, match="at least 1 key switch"):
            hg.Server(keys, compose_rotations=wrong)
    with pytest.raises(hg.DtypeError, match="rotation"):
        keys.composition("1")  # type: ignore[arg-type]
    tfhe = hg.SecretKey.generate(hg.tfhe.parameters()).evaluation_keys()
    with pytest.raises(hg.MismatchError, match="cannot compose rotations"):
        hg.Server(tfhe, compose_rotations=True)
    assert hg.Server(tfhe).keys is tfhe


def test_composition_is_a_setting_of_the_server_only() -> None:
    secret = secret_of("bfv")
    keys = secret.evaluation_keys(rotations=[1, 2])
    server = hg.Server(keys, compose_rotations=True)
    assert (keys.most_switches, server.keys.most_switches, hg.Server(server.keys).keys.most_switches) == (1, 32, 1)
    assert "composes rotations" in repr(server)
    assert server.keys.to_bytes() == keys.to_bytes()  # the server's setting is not part of the file
    assert hg.Server(keys).keys is keys
    clear = hg.ClearTensor(np.arange(8).reshape(1, 8))
    assert hg.rotate_rows(clear, 3, compose=True).shape == clear.shape


def test_networks_use_the_servers_setting(tmp_path: Any) -> None:
    model = hg.nn.setup("digits").export(tmp_path / "digits.hgm")
    secret = hg.SecretKey.generate(model.parameters)
    x = model.encrypt(secret, np.arange(64).reshape(8, 8) % 16)
    direct = hg.Server(model.keys(secret))
    keys = secret.evaluation_keys(rotations=[1, 4, 8, 16, 32, 64, 128, 256, 512, 2048], columns=True)
    composing, strict = hg.Server(keys, compose_rotations=True), hg.Server(keys)
    with pytest.raises(hg.MissingKeyError, match="lack rotations 2, 1024, which"):
        model.run(strict, strict.bind(+x))
    want, found = model.run(direct, direct.bind(+x)), model.run(composing, composing.bind(+x))
    assert (secret.decrypt(found) == secret.decrypt(want)).all()
    assert found.noise_budget < want.noise_budget
    few = hg.Server(secret.evaluation_keys(rotations=keys.rotations), compose_rotations=True)
    own = few.bind(+x)
    with pytest.raises(hg.MissingKeyError, match="lack the key columns"):
        model.run(few, own)
