"""Program that test_run.py starts on ranks: ranks_program.py FUNCTION ARGUMENTS...

Functions import their own modules. Most jobs do not need these modules, and start in half the time without them.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from heliograph import _core

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def digest(tensor: Any) -> str:
    """Returns a digest of a tensor's file."""
    return hashlib.sha256(tensor.to_bytes()).hexdigest()[:16]


def integers() -> None:
    """Prints digests and decrypted values of BFV and BGV operations."""
    import rigs

    def both(a: Any, b: Any) -> tuple[Any, Any]:
        return hg.relinearize(a * a), hg.rotate_rows(b, 1) + b

    def meeting(a: Any, b: Any) -> tuple[Any, Any]:
        c, d = hg.relinearize(a * a) + b, hg.rotate_rows(hg.relinearize(b * b), 1)
        return hg.relinearize(c * d), c - a

    values = np.arange(5 * rigs.N).reshape(5, rigs.N) % 251
    for name, face in (("w64", hg.bfv), ("bgv", hg.bgv)):
        secret = rigs.secret_for_test(face.Parameters(_core.exact.Parameters(rigs.specs(name))))
        server = hg.Server(secret.evaluation_keys(rotations=[1]))
        x = server.bind(secret.encrypt(values))
        y = hg.rotate_rows(hg.relinearize(x * x[::-1]), 1) + x
        print(name, digest(x), digest(y), int(np.abs(secret.decrypt(y)).sum()))
        program = hg.program(both)
        replayed = [program(x, y) for _ in range(3)]
        assert program.replays == 2
        followed = program(x + x, y - y)  # operands with other noise bounds replay the recorded calls
        assert [digest(t) for t in followed] == [digest(t) for t in both(x + x, y - y)]
        assert (program.recordings, program.replays) == (1, 3)
        assert all([digest(t) for t in pair] == [digest(t) for t in both(x, y)] for pair in replayed)
        placed = hg.program(meeting)
        for one, other in ((x[0], x[1]), (x[3], y[2]), (y[4], x[0])):
            assert [digest(t) for t in placed(one, other)] == [digest(t) for t in meeting(one, other)]
        if "costs" in os.environ.get("HELIOGRAPH_DEVICE", ""):  # members declared slow: the mesh distributes work
            assert any(sum(bool(events) for _, events in core.timeline) > 1 for core in placed._calls)


def layers(x: Any) -> Any:
    """Returns a small network on (1, 21, 21): two convolutions with squares and a dense layer."""
    rng = np.random.default_rng(4)
    first, second = rng.integers(-3, 4, (4, 1, 3, 3)), rng.integers(-3, 4, (8, 1, 3, 3))
    y = hg.conv2d(x, first, np.arange(4), stride=2)
    z = hg.conv2d(hg.square(y), second, np.arange(8), stride=2, groups=4)
    return hg.relinearize(hg.matmul(rng.integers(-3, 4, (5, 128)), z.reshape(-1)))


def networks() -> None:
    """Prints digests of layers that read many ciphertexts, and the values of these layers computed in clear."""
    import rigs

    for name, face in (("w64", hg.bfv), ("bgv", hg.bgv)):
        secret = rigs.secret_for_test(face.Parameters(_core.exact.Parameters(rigs.specs(name))))
        server = hg.Server(secret.evaluation_keys())
        values = np.arange(441 * rigs.N).reshape(1, 21, 21, rigs.N) % 3 - 1
        y = layers(server.bind(secret.encrypt(values)))
        t = secret.parameters.plain_moduli[0]
        assert np.array_equal(secret.decrypt(y) % t, layers(hg.ClearTensor(values)).values % t)
        print("network", name, digest(y))


def reals() -> None:
    """Prints digests and values of CKKS operations."""
    import ckks_rig
    import rigs

    parameters = ckks_rig.parameters()
    secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(parameters._core, rigs.SEED))
    server = hg.Server(secret.evaluation_keys(rotations=[1]))
    x = server.bind(secret.encrypt(np.linspace(-1, 1, 3 * ckks_rig.SLOTS).reshape(3, -1)))
    y = x * x
    print("ckks", digest(x), digest(y), secret.decrypt(y).round(4).sum().round(2))


def bootstraps() -> None:
    """Prints digests and values of a CKKS bootstrap and of a functional bootstrap."""
    import rigs

    parameters = hg.ckks.parameters(n=2048, depth=3, log_scale=39, bootstrap=True, insecure=True)
    secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(parameters._core, rigs.SEED))
    server = hg.Server(secret.evaluation_keys(bootstrap=True))
    values = np.arange(3 * 1024).reshape(3, -1) % 3
    x = server.bind(secret.encrypt(values / 2, level=4, bound=1))
    found = hg.ckks.bootstrap(x), hg.ckks.functional_bootstrap(x * 2, [0, 1, 0])
    print("bootstraps", *(digest(y) for y in found), *(secret.decrypt(y).round(3).sum().round(1) for y in found))


def numbers() -> None:
    """Prints values of TFHE operations; no digests, because the noise is random."""
    import tfhe_rig

    secret = hg.SecretKey.generate(tfhe_rig.parameters("digits"))
    server = hg.Server(secret.evaluation_keys())
    a, b = np.array([[3, 250, 77], [1, 2, 200]], dtype=np.uint8)
    x, y = (server.bind(secret.encrypt(v)) for v in (a, b))
    results = [secret.decrypt(t).tolist() for t in (x + y, x * y, hg.tfhe.select(x < y, x, y))]
    assert results == [(a + b).tolist(), (a * b).tolist(), np.minimum(a, b).tolist()]
    print("tfhe", results)


def same() -> None:
    """Runs the functions of all schemes."""
    integers()
    networks()
    reals()
    bootstraps()
    numbers()


class Party:
    """A key holder, its server, and an encrypted batch."""

    def __init__(self, n: int = 2048, items: int = 6) -> None:
        spec = _core.exact.make_spec(n, 120, 1, [65537], 64, 0, True)
        self.secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))
        self.server = hg.Server(self.secret.evaluation_keys())
        self.x = self.server.bind(self.secret.encrypt(np.arange(items * n).reshape(items, n) % 100 - 50))


def work(what: str = "", rank: str = "1") -> None:
    """Computes in a loop. In step 3, the process of rank `rank` raises an error, returns or exits, depending on `what`."""
    mine = int(rank) == RANK
    print("running", flush=True)
    p = Party()
    print("computing", flush=True)
    for step in range(1 << 20):
        if step == 3 and mine and what == "raise":
            raise ValueError("out of luck")
        if step == 3 and mine and what == "leave":
            return
        if step == 3 and mine and what == "status":
            sys.exit(7)
        p.secret.decrypt(p.x * p.x)


def everyone_raises() -> None:
    """Raises the same error on all ranks."""
    hg.barrier()
    raise hg.NoiseError("the same noise everywhere")


def late() -> None:
    """Ends rank 0 later than the other ranks; the difference is longer than MPI's time limits."""
    hg.barrier()
    if RANK == 0:
        time.sleep(25)
        print("the last rank")


def told() -> None:
    """Prints the name, arguments, path and input with which this program was started."""
    print(__name__, sys.argv[1:], Path(sys.path[0]).name)
    print("standard error", file=sys.stderr)
    print(hg.devices()[0].split(" thread")[0])
    print("terminal", sys.stdout.isatty())
    if RANK == 0:
        print("standard input", sys.stdin.read())


def count(folder: str, what: str = "products") -> None:
    """Distributes a batch over the hosts. When a file "go" appears in the folder, makes four calls and writes a file "done"."""
    p = Party(8192, 32) if what == "products" else Party(4096, 441)
    run = (lambda x: hg.relinearize(x * x)) if what == "products" else (lambda x: layers(x.reshape(1, 21, 21)))
    run(p.x).wait()
    pause, before, sent = Path(folder), _core.device.moved()["bytes"], hg.sent_bytes()
    (pause / f"ready{RANK}").touch()
    while not (pause / "go").exists():
        time.sleep(0.02)
    for _ in range(4):
        result = run(p.x)
    result.wait()
    moved, sent = _core.device.moved()["bytes"] - before, hg.sent_bytes() - sent
    (pause / f"done{RANK}").write_text(f"{moved} {sent} {result.nbytes} {p.x.nbytes}")
    while not (pause / "counted").exists():
        time.sleep(0.02)
    values, t = p.secret.decrypt(p.x), p.secret.parameters.plain_moduli[0]
    expected = run(hg.ClearTensor(values)).values if what != "products" else values * values
    assert (p.secret.decrypt(result) % t == expected % t).all()
    print("right")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
