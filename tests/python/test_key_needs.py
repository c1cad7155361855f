"""`evaluation_keys(for_=...)` makes exactly the keys that a computation needs. Errors name all missing keys."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import ml, nn

N = 1 << 10
SLOTS = 8
V = np.array([0.5, 1, -1.5, 2, 0.25, 0, 1, -2])


@functools.cache
def ckks() -> hg.ckks.SecretKey:
    """Returns a small insecure CKKS key."""
    parameters = hg.ckks.parameters(n=N, levels=5, log_scale=40, base_bits=50, slots=SLOTS, insecure=True)
    return hg.SecretKey.generate(parameters)


@functools.cache
def exact(scheme: str) -> hg.bfv.SecretKey:
    module: Any = getattr(hg, scheme)
    return hg.SecretKey.generate(module.parameters(n=N, log_q=140, plain_modulus=12289, insecure=True))


Purpose = tuple[Any, Callable[[Any], Any], Any]
MATRIX = np.arange(1.0, 13).reshape(2, 6).repeat([2, 2, 1, 1, 1, 1], axis=1)
COMPLEX = V + 1j * V[::-1]

CKKS: dict[str, Purpose] = {
    "mean": (hg.ckks.mean, hg.ckks.mean, V),
    "var": (hg.ckks.var, hg.ckks.var, V),
    "var of complex values": ((hg.ckks.var, COMPLEX), hg.ckks.var, COMPLEX),
    "cov": ((hg.ckks.cov, np.stack([V, V])), hg.ckks.cov, np.stack([V, 2 * V])),
    "sum": (hg.sum, lambda x: hg.sum(x, axis="slots"), V),
    "sum of some slots": (lambda x: hg.ckks.sum_slots(x, 4), lambda x: hg.ckks.sum_slots(x, 4), V),
    "rotations": (lambda x: hg.ckks.rotate(x, [1, -1, 0, SLOTS]), lambda x: hg.ckks.rotate(x, [1, 7]), V),
    "partial": (functools.partial(hg.ckks.rotate, steps=3), lambda x: hg.ckks.rotate(x, 3), V),
    "conjugate": (hg.ckks.conjugate, hg.ckks.conjugate, V),
    "square": (hg.square, hg.square, V),
    "matmul": (functools.partial(hg.matmul, MATRIX), lambda x: hg.matmul(MATRIX, x), V),
    "polynomial": (lambda x: hg.ckks.polynomial(x, [1, 0, 2], "chebyshev"), lambda x: x * x, V),
    "several": ([hg.ckks.mean, hg.square], lambda x: hg.ckks.mean(x * x), V),
    "two operands": ((lambda x, y: x * y, V, V), lambda x: x * x, V),
    "nothing": (lambda x: x + 1, lambda x: x + 1, V),
}


def without(secret: Any, keys: Any) -> list[dict[str, Any]]:
    """For each key, returns the arguments for all keys except this one."""
    swap = keys._swap[0]
    have = {"relinearize": keys.relinearize, "rotations": keys.rotations, swap: getattr(keys, swap)}
    less = [{**have, "rotations": [r for r in keys.rotations if r != gone]} for gone in keys.rotations]
    return less + [{**have, name: False} for name in ("relinearize", swap) if have[name]]


def require_exact(secret: Any, purpose: Any, compute: Callable[[Any], Any], values: Any) -> None:
    """Checks that the computation runs with these keys. If any one of the keys is missing, an error must name the remedy."""
    keys = secret.evaluation_keys(for_=purpose)
    compute(hg.Server(keys).bind(secret.encrypt(values, pad=True)))
    for less in without(secret, keys):
        x = hg.Server(secret.evaluation_keys(**less)).bind(secret.encrypt(values, pad=True))
        with pytest.raises(hg.MissingKeyError, match=r"evaluation_keys\(|make them with"):
            compute(x)


@pytest.mark.parametrize("name", CKKS)
def test_ckks(name: str) -> None:
    require_exact(ckks(), *CKKS[name])


W = np.arange(N)
EXACT: dict[str, Purpose] = {
    "sum": (hg.sum, lambda x: hg.sum(x, axis="slots"), W),
    "rows": (lambda x: hg.rotate_rows(x * x, [3, -2]), lambda x: hg.rotate_rows(x * x, [3, N // 2 - 2]), W),
    "columns": (hg.rotate_columns, hg.rotate_columns, W),
    "relinearize": (lambda x: hg.relinearize(x * x), lambda x: hg.relinearize(x * x), W),
    "matmul": ((lambda x: hg.matmul([[1, 2]], x), np.stack([W, W])), lambda x: hg.matmul([[1, 2]], x), np.stack([W, W])),
    "a product": (hg.square, hg.square, W),
}


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str, scheme: str) -> None:
    require_exact(exact(scheme), *EXACT[name])


def test_transforms_networks_and_models_list_their_keys(tmp_path: Path) -> None:
    secret = ckks()
    layer = hg.ckks.LinearTransform(secret.parameters, MATRIX)
    require_exact(secret, layer, lambda x: layer @ x, V)
    require_exact(secret, lambda x: layer @ x, lambda x: layer @ x, V)  # plaintexts are encoded earlier, for this device
    weights = hg.encode(secret.parameters, V)
    require_exact(secret, lambda x: hg.ckks.rotate(x * weights, 2), lambda x: hg.ckks.rotate(x, 2), V)

    x = hg.Server(secret.evaluation_keys(rotations=[1, 2, 3, 4])).bind(secret.encrypt(V))
    program = hg.program(lambda x: hg.ckks.rotate(x, 3) * x, x)
    assert secret.evaluation_keys(for_=program).rotations == [3]
    assert secret.evaluation_keys(for_=(program, V)).rotations == [3]
    again = hg.Program.from_bytes(program.to_bytes())
    require_exact(secret, again, program.function, V)

    found = hg.parameters_for(lambda x: hg.ckks.rotate(x, 2), V, scheme="ckks", precision=20)
    keys = hg.SecretKey.generate(found).evaluation_keys(for_=found)
    assert (keys.relinearize, keys.rotations) == (True, [2])

    layout = nn.setup("digits").layout()
    owner = hg.SecretKey.generate(nn.setup("digits").parameters())
    keys = owner.evaluation_keys(for_=[layout])
    assert (keys.relinearize, keys.rotations, keys.columns) == (True, layout.rotations, True)
    some = hg.Server(owner.evaluation_keys(rotations=layout.rotations[1:], columns=False))
    request = some.bind(owner.encrypt(layout.pack(np.zeros((8, 8)))))
    with pytest.raises(hg.MissingKeyError, match=r"compute digits: .* 1, 2, 4,.*lack the rotations 1 and a key to exchange"):
        layout.server(some.parameters).run(request)
    for network in (nn.setup("digits-batch").load(), nn.setup("digits-batch").export(tmp_path / "digits.hgm")):
        keys = hg.SecretKey.generate(nn.setup("digits-batch").parameters()).evaluation_keys(for_=network)
        assert (keys.relinearize, keys.rotations) == (True, [])


def test_bootstraps() -> None:
    secret = hg.SecretKey.generate(hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True))
    keys = secret.evaluation_keys(for_=[hg.ckks.bootstrap, lambda x: hg.ckks.rotate(x, 5)])
    assert keys.bootstrap
    assert keys.relinearize
    assert 5 in keys.rotations
    assert not secret.evaluation_keys(for_=hg.square).bootstrap
    x = hg.Server(secret.evaluation_keys(relinearize=False)).bind(secret.encrypt(np.zeros(1024)))
    with pytest.raises(
        hg.MissingKeyError, match="a bootstrap: it needs a relinearization key and the keys of bootstrapping"
    ):
        hg.ckks.bootstrap(x)


def test_tfhe() -> None:
    """TFHE has only one kind of evaluation keys. Impossible computations are refused for TFHE, too."""
    secret = hg.SecretKey.generate(hg.tfhe.parameters())
    purposes = [hg.tfhe.sum, hg.sum, lambda x: x < 3, (lambda p: p & True, np.array([True]))]
    assert secret.evaluation_keys(for_=purposes).id == secret.id
    with pytest.raises(hg.DtypeError, match="CKKS"):
        secret.evaluation_keys(for_=hg.ckks.mean)


def test_purposes_may_be_combined_with_named_keys() -> None:
    keys = ckks().evaluation_keys(for_=hg.ckks.conjugate, rotations=[6], relinearize=True)
    assert (keys.relinearize, keys.rotations, keys.conjugate) == (True, [6], True)
    assert ckks().evaluation_keys(rotations=[6]).relinearize  # keys for relinearization are the default


def test_invalid_purposes_are_refused() -> None:
    secret = ckks()
    other = hg.ckks.parameters(n=N, levels=4, log_scale=40, base_bits=50, slots=SLOTS, insecure=True)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (3, hg.DtypeError, "cannot make keys for 3: a purpose must be a function"),
        ("mean", hg.DtypeError, "cannot make keys for 'mean'"),
        (V, hg.DtypeError, "a purpose must be"),
        (hg.ckks.Tensor, hg.DtypeError, "a purpose must be"),
        ([], hg.ParameterError, "at least one purpose"),
        ((hg.ckks.mean, hg.ckks.var), hg.DtypeError, "must be a list"),
        (hg.ckks.rotate, hg.DtypeError, "rotate: it must be a function of 1 tensor.*steps.*partial"),
        (hg.ckks.corrcoef, hg.LevelError, "level"),
        (hg.bfv.encode, hg.DtypeError, "integers are encoded by|cannot make keys for encode"),
        (hg.tfhe.sum, hg.DtypeError, "tensors of TFHE"),
        (hg.ckks.bootstrap, hg.ParameterError, "no bootstrapping"),
        (lambda x: x**33, hg.LevelError, "level"),
        (secret.parameters, hg.ParameterError, "must come from hg.parameters_for"),
        (hg.ckks.LinearTransform(other, MATRIX), hg.MismatchError, "must be the key's"),
        (nn.setup("digits").layout(), hg.MismatchError, "columns, which keys of CKKS"),
        (hg.program(lambda x: x + x), hg.RecordingError, "nothing is recorded"),
        ((hg.square, "text"), hg.DtypeError, "must be numbers"),
    ]
    for purpose, kind, words in wrong:
        with pytest.raises(kind, match=words):
            secret.evaluation_keys(for_=purpose)
    foreign = hg.SecretKey.generate(other)
    program = hg.program(lambda x: x + x, foreign.encrypt(V))
    with pytest.raises(hg.MismatchError, match="its parameters must be the key's"):
        secret.evaluation_keys(for_=program)


@pytest.mark.parametrize("rotations", [[], [1], [1, 2]])
def test_errors_name_all_keys_that_are_missing(rotations: list[int]) -> None:
    """The error of a mean lists all missing rotations, and the arguments that it suggests work."""
    secret = ckks()
    x = hg.Server(secret.evaluation_keys(rotations=rotations, relinearize=False)).bind(secret.encrypt(V))
    lack = "all of that" if not rotations else f"the rotations {', '.join(str(s) for s in (1, 2, 4) if s not in rotations)}"
    ask = r"evaluation_keys\(rotations=hg.ckks.sum_rotations\(8\)\)"
    for what, compute in (("mean", hg.ckks.mean), ("a sum over slots", hg.ckks.sum_slots)):
        with pytest.raises(
            hg.MissingKeyError, match=rf"compute {what}: it needs the rotations 1, 2, 4; these keys lack {lack}. .*{ask}"
        ):
            compute(x)
    with pytest.raises(hg.MissingKeyError, match="var: it needs the rotations 1, 2, 4 and a relinearization key.*" + ask):
        hg.ckks.var(x)
    hg.ckks.mean(hg.Server(secret.evaluation_keys(rotations=hg.ckks.sum_rotations(8))).bind(secret.encrypt(V)))
    with pytest.raises(hg.ShapeError, match=r"power of two, not 1000.*`period`"):
        hg.ckks.sum_rotations(1000)


def test_errors_of_exact_schemes_name_all_keys() -> None:
    secret = exact("bfv")
    x = hg.Server(secret.evaluation_keys(rotations=[1])).bind(secret.encrypt(W))
    needed = ", ".join(str(1 << k) for k in range(9))
    with pytest.raises(
        hg.MissingKeyError, match=rf"rotations {needed} and a key to exchange.*lack the rotations 2.*for_=hg.sum"
    ):
        hg.sum(x, axis="slots")
    with pytest.raises(hg.MissingKeyError, match=r"rotations 2, 5 are not among the keys; they have 1\. "):
        hg.rotate_rows(x, [2, 5])
    with pytest.raises(
        hg.MissingKeyError, match=r"rotation 5 is not among the keys; they have 1\. .*rotations=\[5, \.\.\.\]"
    ):
        hg.rotate_rows(x, 5)


def test_models_of_scikit_learn() -> None:
    """A linear model needs no evaluation keys. A model with an activation needs a relinearization key."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    neural_network = pytest.importorskip("sklearn.neural_network")
    samples = np.random.default_rng(1).uniform(-1, 1, (20, 2))
    line = linear_model.LinearRegression().fit(samples, samples.sum(1))
    network = neural_network.MLPRegressor(hidden_layer_sizes=(2,), activation="tanh", max_iter=20, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether the estimator converges does not matter
        network.fit(samples, samples.sum(1))
    for estimator, relinearize in ((line, False), (network, True)):
        model = ml.compile(estimator, samples)
        secret = hg.SecretKey.generate(model.parameters(samples=2))
        keys = secret.evaluation_keys(for_=model)
        assert (keys.relinearize, keys.rotations) == (relinearize, [])
        x = model.encrypt(secret, samples[:2])
        found = model.predictions(model.decrypt(secret, model(hg.Server(keys).bind(x))))[:2]
        assert found.shape == (2,)
        if relinearize:
            with pytest.raises(hg.MissingKeyError):
                model(hg.Server(secret.evaluation_keys(relinearize=False)).bind(x))
