"""All schemes share one interface: names of classes contain no scheme, tensors have methods, and axes have one meaning."""

from __future__ import annotations

import ast
import functools
import math
import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import rigs
import tfhe_rig
from alike import require_refused
from ckks_rig import SLOTS
from heliograph import _core
from rigs import N

PACKAGE = Path(hg.__file__).parent
SCHEMES = {"exact", "ckks", "tfhe", "bfv", "bgv"}
#: Modules that depend on no scheme. Modules whose errors or options belong to a scheme are not listed.
SHARED = {f"{room}.{p.stem}" for room in ("_common", "programs") for p in (PACKAGE / room).glob("[a-z]*.py")} | {"keys"}
SHARED -= {"_common.columns", "programs.bootstraps", "_common.key_needs"}


@functools.cache
def exact() -> tuple[Any, Any]:
    """Returns BFV's secret key and a server, with the rotations for a sum over slots."""
    secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))
    steps = [1 << i for i in range((N // 2).bit_length() - 1)]
    return secret, hg.Server(secret.evaluation_keys(rotations=steps, columns=True))


def integers(*shape: int, seed: int = 3) -> Any:
    """Returns a BFV tensor and its small values."""
    secret, server = exact()
    values = np.random.default_rng(seed).integers(-3, 4, (*shape, N))
    return server.bind(secret.encrypt(values)), values


def opened(x: Any) -> Any:
    """Decrypts a tensor with the shared key of its scheme."""
    keys = {"bfv": lambda: exact()[0], "ckks": lambda: ckks_rig.party().secret, "tfhe": lambda: tfhe_rig.party().secret}
    return keys[x._scheme.module]().decrypt(x)


# Structure of the package


@pytest.mark.parametrize("name", sorted(SHARED))
def test_shared_modules_name_no_scheme(name: str) -> None:
    """The code of shared modules contains no name of a scheme; docstrings and messages may contain one.
    `scripts/check_layers.py` checks the imports of shared modules.

    """
    tree = ast.parse((PACKAGE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
    named = {getattr(n, "id", "") for n in ast.walk(tree)} | {getattr(n, "attr", "") for n in ast.walk(tree)}
    words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert not (named | words) & (SCHEMES | {s.upper() for s in SCHEMES})


# Objects


def test_shared_classes_make_the_schemes() -> None:
    """Shared classes return the class of the scheme: for an engine object its scheme, for bytes the scheme that wrote them."""
    for secret, module in ((exact()[0], hg.bfv), (ckks_rig.party().secret, hg.ckks), (tfhe_rig.party().secret, hg.tfhe)):
        assert type(secret) is module.SecretKey
        assert type(hg.SecretKey(secret._core)) is module.SecretKey
        keys = secret.evaluation_keys()
        assert isinstance(keys, hg.EvaluationKeys)
        assert type(hg.EvaluationKeys.from_bytes(keys.to_bytes())) is module.EvaluationKeys
        assert type(module.EvaluationKeys.from_bytes(keys.to_bytes())) is module.EvaluationKeys
        assert secret.parameters == type(secret.parameters)(secret.parameters._core)
        assert module is hg.tfhe or type(hg.PublicKey.from_bytes(secret.public_key().to_bytes())) is module.PublicKey
        with pytest.raises(hg.DtypeError, match="is not made of"):
            hg.PublicKey(secret._core)
    with pytest.raises(hg.FormatError):
        hg.EvaluationKeys.from_bytes(b"no container")
    with pytest.raises(hg.FormatError):
        hg.EvaluationKeys.from_bytes(ckks_rig.party().secret.public_key().to_bytes())


def test_load_refuses_files_of_another_kind(tmp_path: Path) -> None:
    """load refuses a file if another kind was requested."""
    path = tmp_path / "x.hg"
    x, _ = integers(2)
    x.save(path)
    assert type(hg.load(path)) is hg.bfv.Tensor
    assert type(hg.load(path, hg.bfv.Tensor)) is hg.bfv.Tensor
    assert type(hg.load(path, hg.Tensor)) is hg.bfv.Tensor
    for kind in (hg.ckks.Tensor, hg.EvaluationKeys):
        with pytest.raises(hg.FormatError, match=r"holds a ciphertext of BFV and BGV, no heliograph\."):
            hg.load(path, kind)


def test_objects_are_read_from_any_buffer(tmp_path: Path) -> None:
    """Tensors and keys of each scheme are read from every kind of buffer; a secret key is read only by its own class."""
    path = tmp_path / "x.hg"
    for secret, keys in (
        (exact()[0], exact()[1].keys),
        *((r.party().secret, r.party().server.keys) for r in (ckks_rig, tfhe_rig)),
    ):
        things = [keys, secret.public_key()] if hasattr(secret, "public_key") else [keys]
        for thing in things:
            data = thing.to_bytes()
            path.write_bytes(data)
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                for buffer in (data, bytearray(data), memoryview(data), mapped):
                    found = hg.from_bytes(buffer)
                    assert type(found) is type(thing)
                    assert found.id == secret.id
            with pytest.raises(hg.FormatError, match="no heliograph"):
                hg.from_bytes(data, hg.Tensor)
        again = hg.SecretKey.from_secret_bytes(bytearray(secret.secret_bytes()))
        assert again.id == secret.id
        secret.save(path)
        assert hg.SecretKey.from_secret_bytes(path.read_bytes()).id == secret.id
        with pytest.raises(hg.FormatError, match=r"SecretKey\.from_secret_bytes alone"):
            hg.from_bytes(secret.secret_bytes())
    x, values = integers(2)
    assert np.array_equal(exact()[0].decrypt(hg.from_bytes(bytearray(x.to_bytes()))), values)


def test_invalid_bytes() -> None:
    """Invalid bytes give typed errors."""
    data = tfhe_rig.party().server.keys.to_bytes()
    for wrong, error in (
        (b"", hg.FormatError),
        (b"no container", hg.FormatError),
        ("text", hg.DtypeError),
        (None, hg.DtypeError),
        (3, hg.DtypeError),
    ):
        for read in (hg.from_bytes, hg.SecretKey.from_secret_bytes, hg.PublicKey.from_bytes):
            with pytest.raises(error):
                read(wrong)  # type: ignore[arg-type,operator]
    with pytest.raises(hg.DtypeError):
        hg.from_bytes(memoryview(data)[::2])
    with pytest.raises(hg.FormatError, match="a public-key of TFHE, which has none"):
        hg.from_bytes(data.replace(b'"heliograph.tfhe.evaluation-keys"', b'"heliograph.tfhe.public-key"     '))
    with pytest.raises(hg.DamagedFileError):
        hg.from_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_headers_beyond_the_format_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header length beyond the format's limit is refused by the engine before memory is allocated."""
    text = b'{"type":"heliograph.bfv.ciphertext","header":"' + b"x" * (1 << 20) + b'"}'
    data = exact()[1].keys.to_bytes()
    data = data[:16] + len(text).to_bytes(8, "little") + data[24:32] + text
    monkeypatch.setattr("json.loads", lambda _: pytest.fail("the reader parsed the header"))
    with pytest.raises(hg.FormatError):
        hg.from_bytes(data)


def test_plaintexts_of_each_scheme() -> None:
    """One function encodes plaintexts for every scheme, with the options of the scheme."""
    assert type(hg.encode(ckks_rig.parameters(), np.ones(3), level=2)) is hg.ckks.Plaintext
    assert isinstance(exact()[1].encode([1, 2]), hg.bfv.Plaintext)
    with pytest.raises(hg.ParameterError, match="'coefficients' of plaintexts: their options are slots, level, scale"):
        hg.encode(ckks_rig.parameters(), np.ones(3), coefficients=0)
    with pytest.raises(hg.ParameterError, match="'level' of plaintexts"):
        exact()[1].encode([1], level=3)
    with pytest.raises(hg.MismatchError, match="TFHE has no plaintexts: its operators"):
        tfhe_rig.party().server.encode([1])


LACKING: dict[str, tuple[Callable[[], Any], str]] = {
    "a rotation of rows": (lambda: hg.rotate_rows(ckks_rig.party().tensor(ckks_rig.real()), 1), r"CKKS has no rotate_rows: use hg\.ckks\.rotate"),
    "a convolution": (lambda: hg.conv2d(ckks_rig.party().tensor(ckks_rig.real()), 1), "CKKS has no conv2d: use hg.matmul"),
    "shrinking": (lambda: hg.shrink(ckks_rig.party().tensor(ckks_rig.real())), r"hg\.ckks\.lower"),
    "rescaling integers": (lambda: hg.rescale(integers(1)[0]), "BFV and BGV have no rescale: exact integers have no scale"),
    "rescaling bits": (lambda: hg.rescale(tfhe_rig.party().tensor([True])), "TFHE has no rescale"),
    "rescaling clear values": (lambda: hg.rescale(hg.ClearTensor([1])), "clear tensors have no rescale"),
    "an array": (lambda: hg.relinearize(np.ones(3)), "relinearize takes a tensor, not ndarray"),
    "two arrays": (lambda: hg.dot([1], [2]), "dot takes a tensor, not list"),
    "two schemes joined": (
        lambda: hg.concatenate([integers(1)[0], ckks_rig.party().tensor(ckks_rig.real(1))]), "tensors of one scheme",
    ),
    "a foreign function": (lambda: hg.ckks.rotate(integers(1)[0], 1), "takes a tensor of CKKS, not Tensor of BFV and BGV"),
}  # fmt: skip


@pytest.mark.parametrize("name", LACKING)
def test_operations_that_a_scheme_lacks(name: str) -> None:
    """If the scheme lacks an operation, a DtypeError names the alternatives."""
    call, message = LACKING[name]
    with pytest.raises(hg.DtypeError, match=message):
        call()


# Matrices along an axis

W = np.random.default_rng(5).normal(size=(3, 4))


def test_a_layer_over_features() -> None:
    """CKKS matrices along an axis of ciphertexts: real, complex and integer weights, with a bias, over any axis."""
    p = ckks_rig.party()
    values = ckks_rig.real(4, 2)
    x = p.tensor(values)
    want = np.tensordot(W, values, (1, 0))
    y = hg.matmul(W, x, axis=0)
    assert (y.shape, y.level) == ((3, 2), x.level - 1)
    p.check(y, want)
    p.check(hg.matmul(W, x), want)
    p.check(W @ x, want)
    p.check(hg.ckks.matmul(W, x, [1.0, 2.0, 3.0], axis=0), want + np.array([1.0, 2.0, 3.0])[:, None, None])
    turned = x.transpose()
    p.check(hg.matmul(W, turned, axis=1), want.transpose(1, 0, 2))
    p.check(hg.matmul(W, turned, axis=-1), want.transpose(1, 0, 2))
    p.check(turned @ W.T, want.transpose(1, 0, 2))
    p.check(hg.matmul(W + 1j * W, x), (1 + 1j) * want)
    whole = np.round(4 * W).astype(int)
    exactly = hg.matmul(whole, x, axis=0)
    assert exactly.level == x.level
    p.check(exactly, np.tensordot(whole, values, (1, 0)))


def test_a_layer_with_progress() -> None:
    """With a progress callback, the product runs limb by limb and gives the same bits; progress ends at 1."""
    x = ckks_rig.party().tensor(ckks_rig.real(4))
    seen: list[float] = []
    once = hg.matmul(W, x, axis=0)
    watched = hg.matmul(W, x, axis=0, progress=seen.append)
    assert once.to_bytes() == watched.to_bytes()
    assert seen[-1] == 1
    assert seen == sorted(seen)


def test_a_layer_of_large_weights() -> None:
    """Integer weights beyond 2,000 cost no level. Weights beyond 63 bits are refused, and the error states the remedy."""
    p = ckks_rig.party()
    values = ckks_rig.real(4) / 4
    x = p.tensor(values)
    whole = np.array([[4000, -1, 0, 2000]])
    p.check(hg.matmul(whole, x, axis=0), np.tensordot(whole, values, (1, 0)), error=1e-2)
    with pytest.raises(hg.PlaintextRangeError, match="exceeds 63 bits; divide the matrix"):
        hg.matmul([[1e15, 0, 0, 0]], x, axis=0)


def test_an_ambiguous_axis_must_be_named() -> None:
    """If a square matrix fits both the slots and the ciphertexts, the caller must name the axis."""
    parameters = ckks_rig.parameters(slots=4)
    p = ckks_rig.Party(parameters, tuple(range(4)) + tuple(range(-3, 0)))
    values = np.arange(16.0).reshape(4, 4) / 16
    x, w = p.tensor(values), W.T @ W
    ways = r'fits both this tensor\'s 4 slots and its 4 ciphertexts: pass .*axis="slots"\) or axis=0'
    for call in (lambda: hg.matmul(w, x), lambda: hg.ckks.matmul(w, x), lambda: w @ x):
        with pytest.raises(hg.ShapeError, match=ways):
            call()
    with pytest.raises(hg.ShapeError, match="or axis=0"):
        x @ w
    p.check(hg.matmul(w, x, axis="slots"), values @ w.T)
    p.check(hg.matmul(w, x, axis=0), w @ values)
    p.check(hg.matmul(w, x[:2]), values[:2] @ w.T)
    p.check(x[:2] @ w, values[:2] @ w)


WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "no axis fits": (
        lambda x: hg.matmul(np.ones((2, 3)), x), hg.ShapeError, r"axis=\"slots\": 512.*\(4, 2\)\); hg\.dot\(x, weights\)",
    ),
    "another axis fits": (lambda x: hg.matmul(np.ones((3, 2)), x), hg.ShapeError, "axis=1 has 2"),
    "not this axis": (lambda x: hg.matmul(W, x, axis=1), hg.ShapeError, "does not fit 2 ciphertexts along axis 1"),
    "not the slots": (lambda x: hg.matmul(W, x, axis="slots"), hg.ShapeError, "does not fit 512 slots"),
    "a matrix encoded for slots": (
        lambda x: hg.ckks.LinearTransform(x.parameters, W)(x), hg.ShapeError, r"hg\.matmul\(matrix, x, axis=0\)",
    ),
    "one on ciphertexts": (
        lambda x: hg.matmul(hg.ckks.LinearTransform(x.parameters, W), x, axis=0), hg.DtypeError, "pass the matrix as an array",
    ),
    "no such axis": (lambda x: hg.matmul(W, x, axis=2), hg.ShapeError, "no axis 2"),
    "another word": (lambda x: hg.matmul(W, x, axis="rows"), hg.DtypeError, "or \"slots\", not 'rows'"),
    "a vector": (lambda x: hg.matmul(np.ones(4), x), hg.ShapeError, r"hg\.dot\(x, weights\)"),
    "a bias of another length": (lambda x: hg.matmul(W, x, [1.0], axis=0), hg.ShapeError, "each of 3 outputs"),
    "text": (lambda x: hg.matmul([["a"]], x), hg.DtypeError, "must be numbers"),
    "a number for each ciphertext": (lambda x: x[:, 0] - np.ones(4), hg.ShapeError, r"as in x - c\[:, None\]"),
    "one for each of two axes": (lambda x: x * np.ones((4, 2)), hg.ShapeError, r"c\[\.\.\., None\]"),
    "slots that are none": (lambda x: x - np.ones(5), hg.ShapeError, r"slots, 512, or 1$"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_alternative(name: str) -> None:
    """The error states what is unsupported and the alternative."""
    call, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        call(ckks_rig.party().tensor(ckks_rig.real(4, 2)))


def test_matrices_of_integers() -> None:
    """BFV and clear tensors take matrices along any axis of ciphertexts, and refuse matrices on slots."""
    w = np.array([[1, -2, 3], [0, 1, 1]])
    x, values = integers(2, 3)
    for some in (x, hg.ClearTensor(values)):
        read = opened if some is x else lambda t: t.values
        want = np.einsum("rc,acs->ars", w, values)
        np.testing.assert_array_equal(read(hg.matmul(w, some, axis=1)), want)
        np.testing.assert_array_equal(read(hg.matmul(w, some, [5, 6], axis=-1)), want + np.array([5, 6])[:, None])
        np.testing.assert_array_equal(read(hg.matmul(w, some.transpose())), want.transpose(1, 0, 2))
        np.testing.assert_array_equal(read(some @ w.T), want)
        with pytest.raises(hg.DtypeError, match="no matrices on slots"):
            hg.matmul(w, some, axis="slots")
        with pytest.raises(hg.DtypeError, match="'columns'"):
            hg.matmul(w, some, axis="columns")
        with pytest.raises(hg.ShapeError, match=r"2 x 3 does not fit 2 ciphertexts along axis 0 .*axis=1 has 3; hg\.dot"):
            hg.matmul(w, some)


def test_matrices_of_tfhe() -> None:
    """TFHE tensors support NumPy's matrix product and a product along an axis."""
    p = tfhe_rig.party()
    values = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    w = np.array([[1, 2, 3], [0, 1, 1]], dtype=np.uint8)
    x = p.tensor(values)
    p.check(hg.matmul(w, x, axis=1), np.einsum("rc,acs->ars", w, values).astype(np.uint8))
    p.check(hg.matmul(w, x[0]), w @ values[0])
    p.check(hg.matmul(w, x[0], axis=0), w @ values[0])
    p.check(hg.matmul(x[0], w), values[0] @ w)
    with pytest.raises(hg.DtypeError, match="has no slots"):
        hg.matmul(w, x, axis="slots")
    with pytest.raises(hg.DtypeError, match="the matrix is the first operand"):
        hg.matmul(x[0], w, axis=0)


# Sums


def summed() -> list[tuple[Any, Any]]:
    """Returns a tensor of each scheme of shape (2, 3), and its values."""
    bits = np.arange(6, dtype=np.uint8).reshape(2, 3)
    reals = ckks_rig.real(2, 3)
    x, values = integers(2, 3)
    return [
        (x, values),
        (hg.ClearTensor(values), values),
        (ckks_rig.party().tensor(reals), reals),
        (tfhe_rig.party().tensor(bits), bits),
    ]


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0,), (0, 1), (1, 0), [-1, 0], ()])
def test_sums_follow_numpys_rules_in_every_scheme(axis: Any) -> None:
    """Sums over ciphertext axes follow NumPy's rules in every scheme."""
    for x, values in summed():
        over = (0, 1) if axis is None else tuple(a % 2 for a in np.atleast_1d(axis).astype(int))
        y = hg.sum(x, axis)
        assert y.shape == tuple(length for a, length in enumerate((2, 3)) if a not in over)
        found = y.values if isinstance(y, hg.ClearTensor) else opened(y)
        np.testing.assert_allclose(found, values.sum(over), atol=0 if values.dtype != float else 1e-5)
        assert type(x.sum(axis)) is type(y)


def test_sums_over_invalid_axes() -> None:
    """Invalid axes are refused with the same errors."""
    for x, _ in summed():
        for axis in ((0, 0), (0, -2)):
            with pytest.raises(hg.ShapeError, match="an axis is named twice"):
                hg.sum(x, axis)
        with pytest.raises(hg.ShapeError, match="no axis 2"):
            hg.sum(x, 2)
        with pytest.raises(hg.DtypeError, match="an axis must be an integer"):
            hg.sum(x, 1.5)
        with pytest.raises(hg.DtypeError, match="'rows'"):
            hg.sum(x, "rows")


def test_sums_over_slots() -> None:
    """After a sum over slots, every slot holds the sum."""
    (x, values), (clear, _), (y, reals), (bits, _) = summed()
    np.testing.assert_array_equal(opened(hg.sum(x, "slots")), np.broadcast_to(values.sum(-1, keepdims=True), values.shape))
    np.testing.assert_array_equal(opened(hg.sum(x * x, "slots"))[..., 0], (values * values).sum(-1))
    np.testing.assert_array_equal(hg.sum(clear, "slots").values[..., 5], values.sum(-1))
    ckks_rig.party().check(hg.sum(y, axis="slots"), np.broadcast_to(reals.sum(-1, keepdims=True), reals.shape), error=1e-4)
    with pytest.raises(hg.DtypeError, match="no slots"):
        hg.sum(bits, axis="slots")
    secret, _ = exact()
    with pytest.raises(hg.MissingKeyError, match=r"a sum over slots: it needs the rotations 1, 2,.*for_=hg.sum"):
        hg.sum(hg.Server(secret.evaluation_keys()).bind(secret.encrypt(values)), axis="slots")


# Strict mode


def test_strict_mode() -> None:
    """In strict mode, values that may exceed their modulus, here 2^9, are neither decrypted nor saved. Each thread has its
    own mode.

    """
    p = ckks_rig.party()
    x = p.tensor(np.full(SLOTS, 1.0), level=1)
    half = x * 300
    wide = half + half
    assert wide.precision is None
    with hg.strict():
        np.testing.assert_allclose(p.secret.decrypt(half), 300, atol=1e-3)
        np.testing.assert_allclose(p.secret.decrypt(wide - half), 300, atol=1e-3)  # the product is proven again to fit
        for call in (lambda: p.secret.decrypt(wide), wide.to_bytes, lambda: wide.save("wide.hg")):
            with pytest.raises(hg.RoomError):
                call()
        with hg.strict(False):
            assert wide.to_bytes()
        elsewhere: list[Any] = []
        thread = threading.Thread(target=lambda: elsewhere.append(wide.to_bytes()))
        thread.start()
        thread.join()
        assert len(elsewhere) == 1
    assert wide.to_bytes()
    with pytest.raises(hg.ParameterError, match="not both"):
        p.secret.decrypt(x, checked=True, unchecked=True)


def test_strict_decryption_requires_a_trusted_bound() -> None:
    """Default decryption trusts a bound from a file; strict decryption does not."""
    p = ckks_rig.party()
    x = p.tensor(np.full(SLOTS, 0.5), level=1, bound=1.0)
    half = x * 450
    fits, grown = (p.server.from_bytes(t.to_bytes()) for t in (half, half + half))
    np.testing.assert_allclose(p.secret.decrypt(fits), 225, atol=1e-3)
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(grown)
    np.testing.assert_allclose(p.secret.decrypt(grown, unchecked=True), 450, atol=1e-3)
    with hg.strict():
        np.testing.assert_allclose(p.secret.decrypt(half), 225, atol=1e-3)
        with pytest.raises(hg.RoomError, match="came from a file"):
            p.secret.decrypt(fits)
        with pytest.raises(hg.RoomError):
            p.server.bind(grown).to_bytes()


# ---- Parameters for a computation

_REALS = np.random.default_rng(8).uniform(-1, 1, (4, 100))
CKKS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], dict[str, Any]]] = {
    "square": (lambda x: x * x, lambda v: v * v, {"precision": 20}),
    "layer": (lambda x: hg.matmul(W, x, axis=0) + 1, lambda v: W @ v + 1, {}),
    "polynomial": (
        lambda x: hg.ckks.polynomial(x, [0.5, 1, 0, 2]), lambda v: 0.5 + v + 2 * v**3, {"precision": 25, "word_size": 32},
    ),
    "large values": (lambda x: (x * 300) ** 2, lambda v: (v * 300) ** 2, {"precision": 8}),
    "sum of slots": (
        lambda x: hg.sum(x, "slots"), lambda v: np.repeat(v.sum(-1, keepdims=True), 100, -1), {"precision": 15},
    ),
    "a bound": (lambda x: x * x, lambda v: v * v, {"precision": 15, "bound": 30.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CKKS)
def test_ckks_parameters_for(name: str) -> None:
    """The set has the levels, room, keys and precision that the function needs. No set with one level less can run the
    function.

    """
    function, clear, options = CKKS[name]
    params = hg.parameters_for(function, _REALS, scheme="ckks", **options)
    assert params.security == "128-bit"
    assert params.slots == 100
    secret = hg.SecretKey.generate(params)
    values = _REALS.copy() * options.get("bound", 1.0)
    x = hg.Server(secret.evaluation_keys(**params.needs)).bind(secret.encrypt(values))
    with hg.strict():
        y = function(x)
    wanted = options.get("precision", 30)
    assert y.precision is not None
    assert y.precision >= wanted - 0.01 or "bound" in options
    assert y.level == 1
    assert np.abs(secret.decrypt(y) - clear(values)).max() < 2.0**-wanted


def test_ckks_parameters_list_the_needed_keys() -> None:
    """The rotations and the conjugation that the function needs are reported."""
    params = hg.parameters_for(
        lambda x: [hg.ckks.rotate(x, [5, 0]), hg.ckks.conjugate(x), hg.ckks.sum_slots(x, 4)],
        _REALS + 1j,
        scheme="ckks",
        precision=15,
    )
    assert params.needs == {"relinearize": True, "rotations": [1, 2, 5], "conjugate": True}
    assert params.depth == 0


def test_tfhe_parameters_for() -> None:
    """For integers a set for digits is found, for gates a set for bits, each with the requested failure probability."""
    numbers = np.arange(3, dtype=np.uint8)
    products = hg.parameters_for(lambda x: hg.tfhe.sum(x * x, dtype=x.dtype) + x[0], numbers, scheme="tfhe")
    assert (products.name, products.needs) == ("2_2", {})
    bits = np.array([True, False])
    assert hg.parameters_for(lambda x: x & ~x, bits, scheme="tfhe").name == "boolean"
    assert hg.parameters_for(lambda x: x & ~x, bits, scheme="tfhe", log2_failure=-60).name == "boolean/p64"
    assert hg.parameters_for(lambda x: hg.dot(x, x), numbers, scheme="tfhe", dtype="uint7").message_bits < 2


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "another scheme": (lambda: hg.parameters_for(abs, [1], scheme="fhe"), hg.ParameterError, "bfv or bgv or ckks or tfhe"),
    "another's option": (
        lambda: hg.parameters_for(abs, [1], scheme="ckks", plain_bits=3), hg.ParameterError, "no option 'plain_bits' for ckks; its options are slots, precision",
    ),
    "a small bound": (lambda: hg.parameters_for(abs, [3.0], scheme="ckks", bound=2), hg.ParameterError, "largest magnitude, 3"),
    "no tensor": (lambda: hg.parameters_for(lambda x: 5, [3.0], scheme="ckks"), hg.DtypeError, "not int"),
    "too deep": (lambda: hg.parameters_for(lambda x: x ** (1 << 61), [3.0], scheme="ckks"), hg.ParameterError, "successive"),
    "too much": (
        lambda: hg.parameters_for(lambda x: (x * 1000) ** 2, [1.0], scheme="ckks"), hg.ParameterError, "a precision of 30 bits",
    ),
    "no failure": (
        lambda: hg.parameters_for(lambda x: x + x, [1], scheme="tfhe", log2_failure=-500), hg.ParameterError, "2\\^-500",
    ),
    "no such type": (lambda: hg.parameters_for(lambda x: x + x, [1], scheme="tfhe", dtype="f4"), hg.DtypeError, "float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_searches_end(name: str) -> None:
    """If a search is impossible, a typed error states the reason."""
    require_refused(*REFUSED[name])


# TFHE sets by numbers


def test_tfhe_sets_by_numbers() -> None:
    """The numbers of a named set give this set. If numbers are missing, the error names all of them."""
    numbers: dict[str, Any] = {
        "n": 920,
        "k": 1,
        "degree": 2048,
        "lwe_noise": ("tuniform", 45),
        "glwe_noise": ("tuniform", 17),
    }
    numbers |= {"bootstrap": (23, 1), "switch": (3, 5), "message_bits": 2, "carry_bits": 2, "norm": 17}
    assert hg.tfhe.parameters(**numbers) == hg.tfhe.parameters("2_2")
    assert hg.tfhe.parameters(**numbers, group=4) != hg.tfhe.parameters("2_2")
    for name in numbers:
        rest = {key: value for key, value in numbers.items() if key != name}
        with pytest.raises(hg.ParameterError, match=f"needs {name} too"):
            hg.tfhe.parameters(**rest)
    with pytest.raises(hg.ParameterError, match=f"needs {', '.join(list(numbers)[1:])} too"):
        hg.tfhe.parameters(n=5)
    assert math.isclose(hg.tfhe.parameters(**numbers).log2_failure, hg.tfhe.parameters().log2_failure)
