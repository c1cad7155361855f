"""Tests shapes whose products overflow, broadcast views that are larger than memory, and memory limits of tensors, in every
scheme.
"""

from __future__ import annotations

import functools
import re
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import tfhe_rig
from heliograph import _core
from heliograph._common.arguments import readable_bytes
from model import Container, build, parse
from rigs import N, small_spec
from test_damaged_files import rehashed

SCHEMES = ["bfv", "bgv", "ckks", "tfhe"]
EXACT = ["bfv", "bgv"]


@dataclass
class Party:
    """A secret key, a server, and the shape of the values in one ciphertext (empty in TFHE)."""

    secret: Any
    server: hg.Server
    each: tuple[int, ...]

    def values(self, *shape: int) -> Any:
        """Returns small consecutive integers."""
        whole = (*shape, *self.each)
        return (np.arange(np.prod(whole, dtype=int)).reshape(whole) % 100).astype(np.int64 if self.each else np.uint8)

    def tensor(self, *shape: int) -> Any:
        """Encrypts values and binds the ciphertexts to the server."""
        return self.server.bind(self.secret.encrypt(self.values(*shape)))

    def check(self, tensor: Any, expected: Any) -> None:
        """Checks that a tensor decrypts to `expected`."""
        np.testing.assert_allclose(self.secret.decrypt(tensor), expected, atol=1e-4)


@functools.cache
def party(scheme: str) -> Party:
    """Returns the shared party of a scheme."""
    if scheme == "tfhe":
        tfhe = tfhe_rig.party()
        return Party(tfhe.secret, tfhe.server, ())
    if scheme == "ckks":
        ckks = ckks_rig.party()
        return Party(ckks.secret, ckks.server, (ckks_rig.SLOTS,))
    parameters = hg.bfv.Parameters(_core.exact.Parameters(small_spec(100, 1, [12289], scheme=scheme)))
    secret = hg.SecretKey.generate(parameters)
    return Party(secret, hg.Server(secret.evaluation_keys(rotations=[1])), (N,))


def of_shape(data: bytes, *shape: int) -> bytes:
    """Returns the file of an empty tensor with another empty shape and a new digest."""
    container = parse(data)
    axes = len(container.header["shape"])
    container.header["shape"] = list(shape)
    for name, a in container.arrays.items():
        container.arrays[name] = EmptyArray((*shape, *a.shape[axes:]), a.dtype)  # type: ignore[assignment]
    return build(container)


@dataclass
class EmptyArray:
    """An array without words whose shape NumPy refuses."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes = 0

    def tobytes(self) -> bytes:
        """Returns no bytes."""
        return b""


@pytest.mark.parametrize("shape", [(0, 2**27, 2**25), (2**27, 0, 2**25), (2**32, 2**32, 0), (0, 1, 2**32, 2**32)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_files_whose_axes_overflow_are_refused(scheme: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A file is refused if a sum over its empty axis would have more elements than any tensor."""
    p = party(scheme)
    data = of_shape(p.tensor(0).to_bytes(), *shape)
    with pytest.raises(hg.DamagedFileError, match=r"impossible shape|overflows"):
        hg.Server(p.server.keys, limit=2**64).from_bytes(data)
    path = tmp_path / "x.hg"
    path.write_bytes(data)
    with pytest.raises(hg.DamagedFileError, match=r"impossible shape|overflows"):
        hg.load(path)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_files_of_an_empty_axis(scheme: str) -> None:
    """Tensors with an empty axis are read; sums over this axis are zeros or are refused."""
    p = party(scheme)
    x = p.server.from_bytes(of_shape(p.tensor(0).to_bytes(), 0, 3))
    assert x.shape == (0, 3)
    assert p.secret.decrypt(x).shape == (0, 3, *p.each)
    if scheme in EXACT:
        with pytest.raises(hg.ShapeError, match="an empty axis"):
            hg.sum(x, 0)
    else:
        p.check(hg.sum(x, 0), np.zeros((3, *p.each)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_shapes_beyond_any_memory(scheme: str) -> None:
    """A shape beyond any memory is refused when it is requested."""
    p = party(scheme)
    x, none = p.tensor(1), p.tensor(0)
    for shape in ((2**54,), (2**62, 1), (2**20, 2**20, 2**20), (2**70,), (-1,)):
        with pytest.raises(hg.ShapeError):
            x.broadcast_to(shape)
    for shape in ((2**54, 0), (2**30, 2**30, 0)):
        with pytest.raises(hg.ShapeError):
            none.broadcast_to(shape)
        with pytest.raises(hg.ShapeError):
            none.reshape(shape)
    assert x[:: 2**70].shape == (1,)


LARGE = (2**34,)
#: Operations on a broadcast view of shape LARGE and one ciphertext. TFHE computes equal ciphertexts only once.
COSTS: dict[str, Callable[[Any, Any, Party], Any]] = {
    "add": lambda big, x, p: big + x,
    "subtract": lambda big, x, p: x - big,
    "negate": lambda big, x, p: -big,
    "add clear": lambda big, x, p: big + 3,
    "multiply clear": lambda big, x, p: 3 * big,
    "multiply": lambda big, x, p: big * x,
    "to_bytes": lambda big, x, p: big.to_bytes(),
    "decrypt": lambda big, x, p: p.secret.decrypt(big),
    "concatenate": lambda big, x, p: hg.concatenate([big, x]),
    "reshape": lambda big, x, p: hg.concatenate([big[1:], x]).reshape(2, -1),
    "sum": lambda big, x, p: big.sum(0, **({"dtype": x.dtype} if isinstance(x, hg.tfhe.Tensor) else {})),
}
ONCE = ["add", "subtract", "negate", "add clear", "multiply clear", "multiply", "sum"]


@pytest.mark.parametrize("operation", COSTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_results_of_huge_views_are_refused(scheme: str, operation: str) -> None:
    """A broadcast tensor takes no memory; a result of its full size is refused before memory is allocated."""
    p = party(scheme)
    x = p.tensor(1)
    big = x.broadcast_to(LARGE)
    if scheme == "tfhe" and operation in ONCE:
        assert COSTS[operation](big, x, p).shape == (() if operation == "sum" else LARGE)
        return
    with pytest.raises(hg.OutOfMemoryError):
        COSTS[operation](big, x, p)


@pytest.mark.parametrize("scheme", [*EXACT, "ckks"])
def test_rotations_of_huge_views_are_refused(scheme: str) -> None:
    """Rotations of a broadcast view are refused, with and without a sum over slots."""
    p = party(scheme)
    big = p.tensor(1).broadcast_to(LARGE)
    with pytest.raises(hg.OutOfMemoryError):
        hg.ckks.rotate(big, 1) if scheme == "ckks" else hg.rotate_rows(big, 1)


@pytest.mark.parametrize("scheme", EXACT)
def test_products_beyond_the_index_range_are_refused(scheme: str) -> None:
    """Weights with more inputs than an index can count are refused, and so are windows beyond any image."""
    p = party(scheme)
    wide = p.tensor(1).reshape(1, 1).broadcast_to((1, 2**33))
    with pytest.raises(hg.ShapeError, match="inputs"):
        hg.matmul([[1]], wide)
    image = p.tensor(1).reshape(1, 1, 1).broadcast_to((1, 2**17, 2**17))
    with pytest.raises(hg.ShapeError, match="inputs"):
        hg.conv2d(image, np.ones((1, 1, 1, 1), dtype=int))
    with pytest.raises(hg.OutOfMemoryError):
        hg.conv2d(p.tensor(1).reshape(1, 1, 1), np.ones((1, 1, 1, 1), dtype=int), padding=2**62)
    with pytest.raises(hg.OutOfMemoryError):
        hg.conv2d(p.tensor(1).reshape(1, 1, 1), np.ones((1, 1, 1, 1), dtype=int), padding=2**25)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_huge_clear_arrays_are_refused(scheme: str) -> None:
    """The size of a broadcast clear array is checked before its values are read."""
    p = party(scheme)
    with pytest.raises(hg.OutOfMemoryError):
        p.secret.encrypt(np.broadcast_to(np.zeros(p.each or 1, dtype=np.uint8), (2**46, *(p.each or (1,)))))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reversed_slices_are_views(scheme: str) -> None:
    """Reversed slices of any length take no memory and no time."""
    p = party(scheme)
    x = p.tensor(1)
    long = x.broadcast_to(LARGE)[::-1]
    assert long.shape == LARGE
    assert long[::-3].shape == (-(-LARGE[0] // 3),)
    p.check(long[:2], np.repeat(p.values(1), 2, axis=0))
    none = p.tensor(0).reshape(0, 1).broadcast_to((0, 2**32)).T[::-1]
    assert none.shape == (2**32, 0)
    if scheme in EXACT:
        assert hg.sum(none, 0).shape == (0,)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reversed_slices_compute(scheme: str) -> None:
    """Computations on reversed slices equal NumPy's."""
    p = party(scheme)
    x, v = p.tensor(3, 4), p.values(3, 4)
    keys: list[Any] = [np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-2], np.s_[2:0:-1, 1::2], np.s_[-1::-2]]
    for key in keys:
        back = x[key]
        p.check(back, v[key])
        p.check(back[::-1], v[key][::-1])
        p.check(p.server.from_bytes(back.to_bytes()), v[key])
        p.check(back.reshape(-1), v[key].reshape(-1, *p.each))
        p.check(hg.concatenate([back, back[::-1]]), np.concatenate([v[key], v[key][::-1]]))
        p.check(hg.sum(back, 1), v[key].sum(axis=1, dtype=v.dtype))
    p.check(x[::-1] + x, v[::-1] + v)
    p.check(x[:, ::-1].T - x.T, np.subtract(v[:, ::-1].swapaxes(0, 1), v.swapaxes(0, 1), dtype=v.dtype))
    p.check(x[::-1, 0] * x[:, 1], (v[::-1, 0] * v[:, 1] + 6144) % 12289 - 6144 if scheme in EXACT else v[::-1, 0] * v[:, 1])
    if scheme in EXACT:
        w = np.array([[1, -2, 3], [0, 5, 7]])
        p.check(hg.matmul(w, x[::-1]), np.tensordot(w, v[::-1], 1))


def test_long_axes_of_empty_tensors_take_no_time() -> None:
    """The time and memory of operations on empty tensors with long axes do not grow with the length."""
    for scheme in SCHEMES:
        p = party(scheme)
        none = p.tensor(0).reshape(0, 1).broadcast_to((0, 2**32)).T  # shape (2^32, 0)
        assert hg.sum(none, 0).shape == (0,)
        assert hg.concatenate([none[::2], none[::-2]]).shape == (2**32, 0)
        if scheme in EXACT:
            assert hg.sum_pool2d(none.reshape(0, 2**20, 2**12), 2**12).shape == (0, 2**8, 1)
        if scheme == "ckks":
            assert hg.ckks.inner_product(none, none, axis=0).shape == (0,)
        if scheme == "tfhe":
            square = p.tensor(0).reshape(0, 1, 1).broadcast_to((0, 2**18, 2**18))
            assert hg.tfhe.matmul(square, square, algorithm="cannon").shape == square.shape


@pytest.mark.parametrize("scheme", EXACT)
def test_a_padded_batch_of_empty_images_is_refused(scheme: str) -> None:
    """With padding, a batch of empty images has a large result, which is refused before memory is allocated."""
    none = party(scheme).tensor(0).reshape(0, 1).broadcast_to((0, 2**32)).T.reshape(2**32, 1, 0, 0)
    with pytest.raises(hg.OutOfMemoryError, match="this convolution"):
        hg.conv2d(none, np.ones((1, 1, 2, 2), dtype=int), padding=1)


# Memory limits of tensors


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_memory_limit_is_of_the_loaded_tensor(scheme: str, tmp_path: Path) -> None:
    """The limit applies to the tensor in memory and not to its file; the error states the needed and the allowed bytes."""
    p = party(scheme)
    x = p.tensor(5)
    result = x + x
    for tensor in (x, result) if scheme != "tfhe" else (x, x[::-1]):  # a file with a seed and a file without
        data, need = tensor.to_bytes(), tensor.nbytes
        path = tmp_path / "x.hg"
        path.write_bytes(data)
        enough, little = hg.Server(p.server.keys, limit=need), hg.Server(p.server.keys, limit=need - 1)
        p.check(enough.from_bytes(data), p.secret.decrypt(tensor))
        p.check(enough.load(path), p.secret.decrypt(tensor))
        with pytest.raises(hg.LimitError, match="are allowed"):
            little.from_bytes(data)
        with pytest.raises(hg.LimitError, match="are allowed"):
            little.load(path)
    tiny = hg.Server(p.server.keys, limit=100)
    whole = result.to_bytes()
    said = f"the file has {readable_bytes(len(whole))}, but 100 B without its header are allowed"
    with pytest.raises(hg.LimitError, match=re.escape(said)):
        tiny.from_bytes(whole)
    with pytest.raises(hg.LimitError, match=r"a tensor of shape \(0, 5\) needs .* in memory, 100 B are allowed"):
        tiny.from_bytes(of_shape(p.tensor(0).to_bytes(), 0, 5))
    assert issubclass(hg.LimitError, hg.OutOfMemoryError)


def test_a_limit_counts_bytes() -> None:
    """A limit must be a number of bytes."""
    keys = party("tfhe").server.keys
    assert hg.Server(keys).limit is None
    with pytest.raises(hg.ParameterError):
        hg.Server(keys, limit=-1)
    with pytest.raises(hg.DtypeError):
        hg.Server(keys, limit="1 GB")  # type: ignore[arg-type]


def seeded_request(items: int) -> bytes:
    """Returns a request that has 8 bytes per LWE ciphertext."""
    container = parse(party("tfhe").tensor(1).to_bytes())
    words = container.arrays["words"]
    container.header["shape"] = [items]
    container.arrays["words"] = np.zeros((items, *words.shape[1:]), words.dtype)
    return build(container)


def test_a_small_request_that_expands_is_refused() -> None:
    """One MiB of seeded TFHE ciphertexts would take 1.1 GiB in memory; it is refused before memory is allocated."""
    p = party("tfhe")
    data = seeded_request(2**15)
    assert len(data) < 2**21
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(hg.LimitError, match=r"needs 1\.1 GiB in memory, 64\.0 MiB are allowed"):
        hg.Server(p.server.keys, limit=2**26).from_bytes(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17  # ru_maxrss is in KiB


def test_without_a_limit_free_memory_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no limit is given, the free memory of the device at the time of the call is the limit."""
    p = party("tfhe")
    data = seeded_request(64)
    assert p.server.from_bytes(data).shape == (64,)
    monkeypatch.setattr(hg.tfhe.Parameters, "free_memory", property(lambda self: 2**20))
    with pytest.raises(hg.LimitError, match=r"1\.0 MiB are allowed"):
        p.server.from_bytes(data)


def test_a_file_longer_than_the_limit_is_not_read(tmp_path: Path) -> None:
    """A sparse file of one TiB is refused because of its length."""
    p = party("bfv")
    container = parse(p.tensor(1).to_bytes())
    path = tmp_path / "long.hg"
    head = long_head(container, 2**40)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(int.from_bytes(head[24:32], "little"))
    with pytest.raises(hg.LimitError, match="the file has"):
        hg.Server(p.server.keys, limit=2**30).load(path)
    with pytest.raises(hg.LimitError, match="the file has"):
        p.server.load(path)


def long_head(container: Container, size: int) -> bytes:
    """Returns the prefix and the header of a container that declares a size `size` bytes too large."""
    data = build(container)
    start = 32 + int.from_bytes(data[16:24], "little")
    total = int.from_bytes(data[24:32], "little") + size
    return data[:24] + total.to_bytes(8, "little") + data[32:start]


@pytest.mark.parametrize("scheme", EXACT)
def test_a_server_does_not_construct_other_parameters(scheme: str) -> None:
    """A server compares the hash of a tensor's parameters before it makes the parameters, so impossible parameters take no
    time.

    """
    p = party(scheme)
    container = parse(p.tensor(1).to_bytes())
    container.header["parameters"]["slots"] = 5000
    data = rehashed(container)
    with pytest.raises(hg.DamagedFileError, match="invalid"):
        _core.exact.Ciphertext.from_bytes(data)
    with pytest.raises(hg.MismatchError, match="different parameters"):
        p.server.from_bytes(data)


def test_sizes_are_readable() -> None:
    """Sizes are written in the same form as by the engine."""
    assert [readable_bytes(n) for n in (0, 1023, 1536, 98348040192, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "91.6 GiB",
        "3.0 TiB",
    ]
