"""Each typed error is raised when it should be, with its message, and the library still works afterwards."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from alike import in_threads
from heliograph import _core
from rigs import N

ONES = np.ones(N, dtype=int)


class Party:
    """A secret key, its evaluation keys and a tensor of shape (3, 4)."""

    def __init__(self, name: str) -> None:
        self.parameters = hg.bfv.Parameters(_core.exact.Parameters(rigs.specs(name)))
        self.secret = hg.SecretKey.generate(self.parameters)
        rotations = [1, 4] if self.parameters.has_slots else []
        self.keys = self.secret.evaluation_keys(rotations=rotations)
        self.server = hg.Server(self.keys)
        self.packing = {"slots": -1} if self.parameters.has_slots else {"coefficients": -1}
        self.x = self.server.bind(self.secret.encrypt(np.ones((3, 4, N), dtype=int), **self.packing))

    def check(self) -> None:
        """Checks that the library still works."""
        expected = 1 if self.parameters.plain_moduli == [2] else 3
        np.testing.assert_array_equal(self.secret.decrypt(hg.sum(self.x, 0)), np.full((4, N), expected))


@functools.cache
def party(name: str = "w64") -> Party:
    """Returns the shared party of a set."""
    return Party(name)


@functools.cache
def stranger(name: str = "w64") -> Party:
    """Returns a party of the same set with another secret key."""
    return Party(name)


# Operands

SCHEMES = pytest.mark.parametrize("own", ["w64", "bgv"])
Attempt = Callable[[Party], Any]
X2 = np.ones((1, 1, 2, 2), dtype=int)


def image(p: Party) -> hg.Tensor:
    """Returns x in the shape of images with one channel."""
    return p.x.reshape(1, 3, 4)


DTYPES: dict[str, Attempt] = {
    "real numbers": lambda p: p.secret.encrypt(np.ones(N)),
    "complex numbers": lambda p: p.secret.encrypt(np.ones(N, dtype=complex)),
    "text": lambda p: p.secret.encrypt(["1"] * N),
    "objects": lambda p: p.secret.encrypt(np.full(N, 1.5, dtype=object)),
    "nothing": lambda p: p.secret.encrypt(None),
    "real factor": lambda p: p.x * 1.5,
    "real summand": lambda p: 0.5 + p.x,
    "text summand": lambda p: p.x + "1",
    "real weights": lambda p: hg.matmul(np.ones((2, 3)), p.x),
    "real kernel": lambda p: hg.conv2d(image(p), np.ones((1, 1, 2, 2))),
    "real bias": lambda p: hg.matmul(np.ones((2, 3), dtype=int), p.x, [0.5, 1]),
    "real plaintext": lambda p: p.server.encode(np.ones(N)),
    "real rotation": lambda p: hg.rotate_rows(p.x, 1.5),
    "real rotation key": lambda p: p.secret.evaluation_keys(rotations=[1.5]),
    "real stride": lambda p: hg.conv2d(image(p), X2, stride=1.5),
    "decrypting a number": lambda p: p.secret.decrypt(5),
    "a server of a secret": lambda p: hg.Server(p.secret),
}
SHAPES: dict[str, Attempt] = {
    "too many values": lambda p: p.secret.encrypt(np.ones(N + 1, dtype=int)),
    "too few values": lambda p: p.secret.encrypt(np.ones(N - 1, dtype=int)),
    "too many coefficients": lambda p: p.secret.encrypt(np.ones(N + 1, dtype=int), coefficients=0),
    "a number alone": lambda p: p.secret.encrypt(5),
    "no such axis": lambda p: p.secret.encrypt(np.ones((2, N), dtype=int), slots=2),
    "ragged rows": lambda p: p.secret.encrypt([[1], [1, 2]]),
    "too many axes": lambda p: p.secret.encrypt(np.ones((1,) * 7 + (N,), dtype=int)),
    "one axis too many": lambda p: p.x.reshape(1, 1, 1, 1, 3, 4)[None],
    "sum": lambda p: p.x + p.x[:, :3],
    "product": lambda p: p.x * p.x[:2],
    "integers": lambda p: p.x + np.ones(5, dtype=int),
    "factors": lambda p: p.x * np.ones((2, 4), dtype=int),
    "plaintext": lambda p: p.x + p.server.encode(np.ones((3, N), dtype=int)),
    "weights": lambda p: hg.matmul(np.ones((2, 4), dtype=int), p.x),
    "weights of one axis": lambda p: hg.matmul(np.ones(3, dtype=int), p.x),
    "weights from the right": lambda p: p.x @ np.ones((3, 2), dtype=int),
    "bias too long": lambda p: hg.matmul(np.ones((2, 3), dtype=int), p.x, [1, 2, 3]),
    "bias of two axes": lambda p: hg.matmul(np.ones((2, 3), dtype=int), p.x, [[1], [2]]),
    "kernel too large": lambda p: hg.conv2d(image(p), np.ones((1, 1, 4, 4), dtype=int)),
    "kernel of three axes": lambda p: hg.conv2d(image(p), np.ones((1, 2, 2), dtype=int)),
    "channels": lambda p: hg.conv2d(image(p), np.ones((1, 2, 2, 2), dtype=int)),
    "groups": lambda p: hg.conv2d(image(p), X2, groups=2),
    "no groups": lambda p: hg.conv2d(image(p), X2, groups=0),
    "no stride": lambda p: hg.conv2d(image(p), X2, stride=0),
    "backward stride": lambda p: hg.conv2d(image(p), X2, stride=-1),
    "negative padding": lambda p: hg.conv2d(image(p), X2, padding=-1),
    "an image of two axes": lambda p: hg.conv2d(p.x, X2),
    "reshape": lambda p: p.x.reshape(5, 5),
    "two unknown lengths": lambda p: p.x.reshape(-1, -1),
    "negative length": lambda p: p.x.reshape(-2, -6),
    "index beyond": lambda p: p.x[3],
    "index before": lambda p: p.x[:, -5],
    "too many indices": lambda p: p.x[0, 0, 0],
    "index by two lists": lambda p: p.x[[0, 1], [0, 1]],
    "index by a truth": lambda p: p.x[True],
    "two ellipses": lambda p: p.x[..., ...],
    "axis twice": lambda p: p.x.transpose([0, 0]),
    "axis missing": lambda p: p.x.transpose([0]),
    "axis beyond": lambda p: p.x.transpose([0, 2]),
    "broadcast": lambda p: p.x.broadcast_to((2, 4)),
    "concatenate": lambda p: hg.concatenate([p.x, p.x[:, :2]]),
    "concatenate axes": lambda p: hg.concatenate([p.x, p.x[0]]),
    "concatenate nothing": lambda p: hg.concatenate([]),
    "concatenate beyond": lambda p: hg.concatenate([p.x], axis=2),
    "sum beyond": lambda p: hg.sum(p.x, 2),
    "sum of nothing": lambda p: hg.sum(p.x[:0], 0),
    "dot": lambda p: hg.dot(p.x[0], p.x[1, :2]),
    "no rotations": lambda p: hg.rotate_rows(p.x, []),
}
MISSING: dict[str, tuple[Attempt, str]] = {
    "rotation": (lambda p: hg.rotate_rows(p.x, 5), r"rotation 5 .* they have 1, 4"),
    "one of several": (lambda p: hg.rotate_rows(p.x, [1, -1]), r"rotation -1 .* they have 1, 4"),
    "columns": (lambda p: hg.rotate_columns(p.x), "columns=True"),
    "relinearization": (lambda p: hg.relinearize(unrelinearized(p)), "relinearize=True"),
    "no keys at all": (lambda p: hg.rotate_rows(p.secret.encrypt(ONES), 1), "Server"),
    "no keys to multiply": (lambda p: hg.square(hg.square(p.secret.encrypt(ONES))), "no evaluation keys"),
    "no keys to relinearize": (lambda p: hg.relinearize(hg.square(p.secret.encrypt(ONES))), "Server"),
}


def unrelinearized(p: Party) -> hg.Tensor:
    """Returns a tensor of degree two at a server without a relinearization key."""
    return hg.square(hg.Server(p.secret.evaluation_keys(relinearize=False, rotations=[1])).bind(p.x))


@pytest.mark.parametrize("attempt", DTYPES)
@SCHEMES
def test_dtypes(attempt: str, own: str) -> None:
    """Only integers are accepted; no value is made narrower without an error."""
    with pytest.raises(hg.DtypeError):
        DTYPES[attempt](party(own))


@pytest.mark.parametrize("attempt", SHAPES)
@SCHEMES
def test_shapes(attempt: str, own: str) -> None:
    """Operands whose axes do not match are refused."""
    with pytest.raises(hg.ShapeError):
        SHAPES[attempt](party(own))


@pytest.mark.parametrize("attempt", MISSING)
@SCHEMES
def test_missing_keys(attempt: str, own: str) -> None:
    """The error names the missing key and the keys that exist."""
    case, message = MISSING[attempt]
    with pytest.raises(hg.MissingKeyError, match=message):
        case(party(own))


@pytest.mark.parametrize("value", [32769, -32769, 2**62, -(2**63)])
@SCHEMES
def test_plaintext_range(value: int, own: str) -> None:
    """Values beyond the plaintext modulus are refused; the error states the valid range."""
    p = party(own)
    attempts: list[Callable[[], Any]] = [
        lambda: p.secret.encrypt(np.full(N, value)),
        lambda: p.secret.public_key().encrypt(np.full(N, value)),
        lambda: p.server.encode(np.full(N, value)),
        lambda: p.x + value,
        lambda: p.x * value,
        lambda: hg.matmul([[1, 1, 1]], p.x, [value]),
    ]
    for attempt in attempts:
        with pytest.raises(hg.PlaintextRangeError, match="-32768 and 32768"):
            attempt()


@pytest.mark.parametrize("values", [np.full(N, 2**63, dtype=np.uint64), np.full(N, 2**70, dtype=object), [-(2**64)] * N])
def test_beyond_64_bits(values: Any) -> None:
    """Values beyond 64 bits are refused and do not wrap."""
    with pytest.raises(hg.PlaintextRangeError):
        party().secret.encrypt(values)


def test_a_plaintext_modulus_of_2_holds_0_and_1() -> None:
    """For t = 2, the only values are 0 and 1."""
    p = party("w64-t2")
    for value in (-1, 2):
        with pytest.raises(hg.PlaintextRangeError, match="between 0 and 1"):
            p.secret.encrypt([value], coefficients=-1, pad=True)


@pytest.mark.parametrize("own", ["w64-t2", "bgv-t2"])
def test_without_slots_batching_is_an_error(own: str) -> None:
    """For t = 2 there are no slots: batching and rotation raise an error that names `coefficients`."""
    p = party(own)
    with pytest.raises(hg.SlotsError, match="coefficients"):
        p.secret.encrypt(ONES)
    with pytest.raises(hg.SlotsError, match="coefficients"):
        p.server.encode(ONES, slots=0)
    with pytest.raises(hg.SlotsError):
        hg.rotate_rows(p.x, 1)
    with pytest.raises(hg.SlotsError):
        hg.rotate_columns(p.x)
    with pytest.raises(hg.SlotsError):
        p.secret.evaluation_keys(rotations=[1])
    with pytest.raises(hg.SlotsError):
        p.secret.evaluation_keys(columns=True)
    p.check()


@SCHEMES
def test_coefficients_do_not_rotate(own: str) -> None:
    """Tensors packed into coefficients cannot be rotated."""
    p = party(own)
    x = p.server.bind(p.secret.encrypt(ONES, coefficients=0))
    with pytest.raises(hg.SlotsError, match="coefficients"):
        hg.rotate_rows(x, 1)
    with pytest.raises(hg.MismatchError):
        x + p.x
    with pytest.raises(hg.MismatchError):
        x * p.server.encode(ONES)
    with pytest.raises(hg.ParameterError):
        p.secret.encrypt(ONES, slots=0, coefficients=0)


PAIRS: dict[str, Callable[[Party, Party], Any]] = {
    "add": lambda p, o: p.x + o.x,
    "multiply": lambda p, o: p.x * o.x,
    "concatenate": lambda p, o: hg.concatenate([p.x, o.x]),
    "relinearize": lambda p, o: hg.relinearize(hg.square(p.x), keys=o.keys),
    "rotate": lambda p, o: hg.rotate_rows(p.x, 1, keys=o.keys),
    "bind": lambda p, o: o.server.bind(p.x),
    "decrypt": lambda p, o: o.secret.decrypt(p.x),
    "measure": lambda p, o: o.secret.noise_budget(p.x),
    "read": lambda p, o: o.server.from_bytes(p.x.to_bytes()),
}


@pytest.mark.parametrize("attempt", PAIRS)
@SCHEMES
def test_wrong_keys(attempt: str, own: str) -> None:
    """A ciphertext of another key of the same set is refused."""
    with pytest.raises(hg.WrongKeyError, match="key"):
        PAIRS[attempt](party(own), stranger(own))
    party(own).check()


@pytest.mark.parametrize("attempt", PAIRS)
@pytest.mark.parametrize("other", ["w64-digits", "w32", "bgv"])
def test_mismatched_parameters(attempt: str, other: str) -> None:
    """A ciphertext of another set, word size or scheme is refused, whichever key it has."""
    told = {"w32": "word sizes: .*64", "bgv": "schemes: .*bfv"}
    message = "parameters" if attempt in ("bind", "read") else told.get(other, "parameters")
    with pytest.raises(hg.MismatchError, match=message):
        PAIRS[attempt](party(), party(other))


def test_mismatched_plaintexts() -> None:
    """A plaintext encoded for another set is refused."""
    p = party()
    with pytest.raises(hg.MismatchError):
        p.x * hg.encode(party("w32").parameters, ONES)


@SCHEMES
def test_levels(own: str) -> None:
    """Switching a tensor to a higher or a negative level is an error."""
    p = party(own)
    for level in (4, 9, -1):
        with pytest.raises(hg.LevelError):
            hg.shrink(p.x, level)
    low = hg.shrink(p.x, 1)
    with pytest.raises(hg.LevelError, match="1 primes left"):
        hg.shrink(low, 2)


@SCHEMES
def test_noise_exhausted(own: str) -> None:
    """Decryption refuses a tensor whose noise estimate is exhausted."""
    p = party(own)
    x = p.x[0, 0]
    for _ in range(6):
        x = hg.square(x)
    assert x.noise_budget == 0
    assert p.secret.noise_budget(x) < 0.03
    assert "noise budget 0 bits" in repr(x)
    with pytest.raises(hg.NoiseError, match="exhausted"):
        p.secret.decrypt(x)


# Parameters

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "too deep": {"depth": 100, "plain_bits": 60},
    "too many slots": {"depth": 1, "plain_bits": 20, "slots": 10**6},
    "negative slots": {"depth": 1, "plain_bits": 20, "slots": -1},
    "negative depth": {"depth": -1, "plain_bits": 20},
    "no plaintext": {"depth": 1},
    "unknown name": {"name": "hcnn6"},
    "unknown word_size of a name": {"name": "hcnn5-2020/w16"},
    "unknown word_size": {"n": 4096, "log_q": 60, "plain_modulus": 17, "word_size": 16},
    "no power of two": {"n": 5000, "log_q": 60, "plain_modulus": 17, "insecure": True},
    "small ring": {"n": 512, "log_q": 60, "plain_modulus": 17, "insecure": True},
    "large ring": {"n": 2**18, "log_q": 60, "plain_modulus": 17, "insecure": True},
    "t too small": {"n": 4096, "log_q": 60, "plain_modulus": 1},
    "t too large": {"n": 4096, "log_q": 60, "plain_modulus": 2**60},
    "t no integer": {"n": 4096, "log_q": 60, "plain_modulus": 17.0},
    "t not coprime": {"n": 8192, "log_q": 60, "plain_modulus": [6, 10]},
    "negative log q": {"n": 4096, "log_q": -60, "plain_modulus": 17},
    "negative special": {"n": 4096, "log_q": 60, "special": -1, "plain_modulus": 17},
}


@pytest.mark.parametrize("request_name", IMPOSSIBLE)
@pytest.mark.parametrize("scheme", [hg.bfv, hg.bgv])
def test_impossible_parameters(request_name: str, scheme: Any) -> None:
    """Impossible values are refused."""
    with pytest.raises(hg.ParameterError) as caught:
        scheme.parameters(**IMPOSSIBLE[request_name])
    assert not isinstance(caught.value, hg.SecurityError)


def test_depth_impossible_at_128_bits() -> None:
    """If no set has the requested depth, the error states the request; the search never returns an insecure set."""
    with pytest.raises(hg.ParameterError, match=r"128 bits has depth 100 with 60 plaintext bits"):
        hg.bfv.parameters(depth=100, plain_bits=60)
    with pytest.raises(hg.ParameterError, match="128-bit"):
        hg.parameters_for(lambda x: x**32, np.arange(9), n=4096, plain_bits=20)


def test_security() -> None:
    """Sets below 128 bits need insecure=True, and their security is printed."""
    numbers: dict[str, Any] = {"n": 1024, "log_q": 60, "plain_modulus": 12289}
    with pytest.raises(hg.SecurityError, match=r"at most 26\).*insecure=True"):
        hg.bfv.parameters(**numbers)
    with pytest.raises(hg.SecurityError, match="insecure=True"):
        hg.bfv.parameters("hcnn11-2020")
    assert "insecure" in repr(hg.bfv.parameters(**numbers, insecure=True))


@SCHEMES
def test_memory_is_checked_beforehand(own: str) -> None:
    """A huge array (a broadcast view of one byte) is refused at once. The error states the needed and the available memory."""
    p = party(own)
    absurd = np.broadcast_to(np.uint8(1), (10**8, N))
    for key in (p.secret, p.secret.public_key()):
        with pytest.raises(hg.OutOfMemoryError, match=r"needs .*TiB, you have .*iB"):
            key.encrypt(absurd)
    with pytest.raises(hg.OutOfMemoryError):
        p.x.broadcast_to((10**9, 3, 4)) + 0 * p.x
    with pytest.raises(hg.OutOfMemoryError):
        hg.square(p.x.broadcast_to((10**8, 3, 4)))
    p.check()


# Cancellation


@pytest.mark.parametrize("error", [hg.CancelledError, KeyboardInterrupt, ZeroDivisionError])
@SCHEMES
def test_a_progress_callback_may_stop_a_call(error: type[BaseException], own: str) -> None:
    """An exception of a progress callback propagates from the call; the library still works."""
    p = party(own)

    def stop(share: float) -> None:
        raise error("enough")

    values = np.ones((3, N), dtype=int)
    attempts: list[Callable[[], Any]] = [
        lambda: p.secret.encrypt(values, progress=stop),
        lambda: p.secret.public_key().encrypt(values, progress=stop),
        lambda: p.secret.decrypt(p.x, progress=stop),
        lambda: p.secret.evaluation_keys(progress=stop),
        lambda: hg.multiply(p.x, p.x, progress=stop),
        lambda: hg.square(p.x, progress=stop),
        lambda: hg.relinearize(hg.square(p.x), progress=stop),
        lambda: hg.rotate_rows(p.x, 1, progress=stop),
        lambda: hg.matmul([[1, 1, 1]], p.x, progress=stop),
        lambda: hg.conv2d(image(p), X2, progress=stop),
    ]
    for attempt in attempts:
        with pytest.raises(error, match="enough"):
            attempt()
    p.check()


@SCHEMES
def test_progress_rises_to_1(own: str) -> None:
    """Progress rises from above 0 to 1."""
    p = party(own)
    for attempt in (
        lambda f: p.secret.encrypt(np.ones((70, N), dtype=int), progress=f),
        lambda f: hg.square(p.x, progress=f),
        lambda f: hg.relinearize(hg.square(p.x), progress=f),
        lambda f: hg.rotate_rows(p.x, [1, 4], progress=f),
        lambda f: hg.matmul([[1, 1, 1]], p.x, progress=f),
        lambda f: p.secret.evaluation_keys(rotations=[1, 4], progress=f),
        lambda f: p.secret.decrypt(p.x, progress=f),
    ):
        shares: list[float] = []
        attempt(shares.append)
        assert shares == sorted(shares)
        assert 0 < shares[0] <= shares[-1] == 1


def run_script(text: str, **environment: str) -> str:
    """Runs a script in its own process and returns its output."""
    env = os.environ | environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_raises_keyboard_interrupt() -> None:
    """A long multiplication handles several SIGINT signals before its end. The library works after a KeyboardInterrupt."""
    out = run_script(
        """
        import os, signal, threading, time
        import numpy as np
        import heliograph as hg

        params = hg.bfv.parameters(n=4096, log_q=200, special=1, plain_modulus=65537, insecure=True)
        secret = hg.SecretKey.generate(params)
        x = secret.encrypt(np.ones((8, 4096), dtype=int)).broadcast_to((500, 8))
        number, handled = 0, []  # number of the product, and the number when each signal was handled

        def heed(*_):
            handled.append(number)
            if handled.count(number) == 4:
                raise KeyboardInterrupt

        def press():
            while True:
                count = len(handled)
                os.kill(os.getpid(), signal.SIGINT)
                while len(handled) == count:  # the next signal follows the handling of this one
                    time.sleep(0.05)

        signal.signal(signal.SIGINT, heed)  # a shell's background jobs ignore it
        try:
            threading.Thread(target=press, daemon=True).start()
            for number in range(20):
                hg.square(x)
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        y = hg.square(x[0])
        print((secret.decrypt(y) == 1).all())
        """,
        HELIOGRAPH_DEVICE="cpu",
    )
    assert out.split() == ["interrupted", "True"]


def test_fork() -> None:
    """In a forked child process every use raises ForkError at once; the parent process still works."""
    out = run_script(
        """
        import os
        import numpy as np
        import heliograph as hg

        params = hg.bfv.parameters(n=1024, log_q=60, plain_modulus=12289, insecure=True)
        secret = hg.SecretKey.generate(params)
        x = secret.encrypt(np.ones(1024, dtype=int))
        attempts = [lambda: x + x, lambda: hg.square(x), lambda: secret.decrypt(x), lambda: x.to_bytes(),
                    lambda: secret.encrypt(np.ones(1024, dtype=int)), lambda: secret.evaluation_keys(),
                    lambda: hg.bfv.parameters(n=2048, log_q=50, special=0, plain_modulus=12289)]
        child = os.fork()
        if child == 0:
            for attempt in attempts:
                try:
                    attempt()
                    os._exit(1)
                except hg.ForkError as error:
                    if "spawn" not in str(error):
                        os._exit(2)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print((secret.decrypt(x + x) == 2).all())
        """
    )
    assert out.split() == ["0", "True"]


def test_threads() -> None:
    """Several Python threads that use the same keys and sets get correct results."""
    p = party()

    def work(k: int) -> None:
        values = np.full((2, N), k)
        x = p.server.bind(p.secret.encrypt(values))
        for _ in range(4):
            y = hg.rotate_rows(hg.relinearize(x * x), 1) + x
            assert (p.secret.decrypt(y) == k * k + k).all()

    in_threads(work, 8)


def test_threads_open_sets_at_once() -> None:
    """Many threads that open the same set get one object."""

    def work(_: int) -> hg.bfv.Parameters:
        return hg.bfv.parameters(n=2048, log_q=54, special=0, plain_modulus=12289, insecure=True)

    assert len(set(in_threads(work, 8))) == 1


def test_errors_derive_from_heliograph_error() -> None:
    """All errors derive from HeliographError, and specific errors derive from the general errors."""
    names = [n for n in hg.__all__ if n.endswith("Error")]
    for name in names:
        assert issubclass(getattr(hg, name), hg.HeliographError)
        assert issubclass(getattr(hg, name), Exception)
    assert issubclass(hg.SecurityError, hg.ParameterError)
    assert issubclass(hg.DamagedFileError, hg.FormatError)
    assert issubclass(hg.VersionError, hg.FormatError)


def test_arguments_of_another_kind() -> None:
    """An argument that is not the expected parameter set, flag or axis is refused, and the error names it."""
    for generate in (hg.SecretKey.generate, hg.ckks.SecretKey.generate, hg.tfhe.SecretKey.generate):
        for wrong in (7, None, "2_2", [1]):
            with pytest.raises(hg.DtypeError, match="generated from hg"):
                generate(wrong)
    for encode in (hg.encode, hg.ckks.encode):
        with pytest.raises(hg.DtypeError, match=r"by (hg\.bfv\.Parameters or )?hg\.ckks\.Parameters, not int"):
            encode(3, [1])
    with pytest.raises(hg.DtypeError, match=r"by hg\.tfhe\.EvaluationKeys"):
        hg.tfhe.trivial(3, [True])
    p = party()
    with pytest.raises(hg.DtypeError, match="pad must be True or False"):
        p.secret.encrypt(ONES, pad=np.zeros(2))
    for axis in ("slots", "coefficients"):
        with pytest.raises(hg.DtypeError, match="axis"):
            p.secret.encrypt(ONES, **{axis: np.zeros(2)})
    with pytest.raises(hg.ShapeError, match="step"):
        p.x[::0]
    p.check()
