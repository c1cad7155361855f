"""Tests the guarantees of docs/threads.md in every scheme: several threads, forks before the first use, progress."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import heliograph as hg

Work = Callable[..., Any]


class Scheme:
    """A party, a computation on a tensor, and calls with progress callbacks."""

    def __init__(self, secret: Any, values: Any, work: Work, calls: dict[str, Work], **keys: Any) -> None:
        self.secret, self.work = secret, work
        self.server = hg.Server(secret.evaluation_keys(**keys))
        self.request = secret.encrypt(values).to_bytes()
        self.x = self.server.from_bytes(self.request)
        self.calls = calls | {
            "encrypt": lambda x, **how: secret.encrypt(values, **how),
            "decrypt": lambda x, **how: secret.decrypt(x, **how),
            "evaluation_keys": lambda x, **how: secret.evaluation_keys(**keys, **how),
        }


def exact(parameters: Any) -> Scheme:
    calls = {
        "multiply": lambda x, **how: hg.multiply(x, x, **how),
        "matmul": lambda x, **how: hg.matmul(np.ones((2, 6), dtype=int), x, **how),
        "rotate_rows": lambda x, **how: hg.rotate_rows(x, 1, **how),
    }
    secret = hg.SecretKey.generate(parameters)
    values = np.arange(6 * parameters.slots).reshape(6, -1) % 10
    return Scheme(secret, values, lambda x: hg.rotate_rows(hg.relinearize(x * x), 1) + x, calls, rotations=[1])


def ckks() -> Scheme:
    calls = {
        "multiply": lambda x, **how: hg.ckks.multiply(x, x, **how),
        "polynomial": lambda x, **how: hg.ckks.polynomial(x, [1, 2, 3, 4], **how),
        "sum_slots": lambda x, **how: hg.ckks.sum_slots(x, **how),
    }
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=20, slots=4))
    return Scheme(
        secret, np.linspace(0, 1, 24).reshape(6, 4), lambda x: hg.ckks.rotate(x * x, 1) + x, calls, rotations=[1, 2]
    )


def tfhe() -> Scheme:
    calls = {
        "add": lambda x, **how: hg.tfhe.add(x, x, **how),
        "matmul": lambda x, **how: hg.tfhe.matmul(x, x, **how),
        "sum": lambda x, **how: hg.tfhe.sum(x, **how),
    }
    secret = hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
    return Scheme(secret, np.array([7, 200], dtype=np.uint8), lambda x: x + 3, calls)


SCHEMES = {
    "bfv": lambda: exact(hg.bfv.parameters(depth=1, plain_bits=20)),
    "bgv": lambda: exact(hg.bgv.parameters(depth=1, plain_modulus=65537)),
    "ckks": ckks,
    "tfhe": tfhe,
}


@pytest.fixture(scope="module", params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> Scheme:
    return SCHEMES[request.param]()


def test_several_threads(scheme: Scheme) -> None:
    """Several threads that use the same objects get the same values, and the same bits if the operation is deterministic."""
    expected = scheme.work(scheme.x)

    def answer(_: int) -> tuple[bytes, Any]:
        y = scheme.work(scheme.server.from_bytes(scheme.request) if _ % 2 else scheme.x)
        return y.to_bytes(), scheme.secret.decrypt(y)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(answer, range(8)))
    for index, (data, values) in enumerate(found):
        np.testing.assert_array_equal(values, scheme.secret.decrypt(expected))
        if index % 2 and not isinstance(scheme.x, hg.tfhe.Tensor):
            assert data == expected.to_bytes()


def test_progress_rises_from_0_to_1(scheme: Scheme) -> None:
    """Progress rises from 0 to 1 and is reported on the thread of the caller."""
    told = 0
    for name, call in scheme.calls.items():
        heard: list[tuple[Any, int]] = []
        call(scheme.x, progress=lambda share, heard=heard: heard.append((share, threading.get_ident())))
        shares = [share for share, _ in heard]
        assert all(type(share) is float and 0 <= share <= 1 for share in shares), name
        assert shares == sorted(shares), name
        assert {thread for _, thread in heard} <= {threading.get_ident()}, name
        told += len(shares)
    assert told >= len(scheme.calls)


def test_an_exception_of_progress_ends_the_call(scheme: Scheme) -> None:
    """An exception in the progress callback propagates from the call, and operands do not change."""

    def stop(share: float) -> None:
        raise LookupError(share)

    before = scheme.x.to_bytes()
    for name in scheme.calls:
        with pytest.raises(LookupError):
            scheme.calls[name](scheme.x, progress=stop)
    assert scheme.x.to_bytes() == before


def test_a_fork_before_the_first_use() -> None:
    """After a fork before the first use, the parent process and the child process both compute."""
    program = """
        import os
        import heliograph as hg

        child = os.fork()
        secret = hg.SecretKey.generate(hg.bfv.parameters(depth=0, plain_bits=20))
        right = secret.decrypt(secret.encrypt([1, 2], pad=True))[:2].tolist() == [1, 2]
        if child == 0:
            os._exit(0 if right else 1)
        print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
