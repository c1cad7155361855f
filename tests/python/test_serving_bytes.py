"""A request's bytes on their way: written while they are sent, kept in memory or in a file, read while they come; files that are sent."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph.cli import explain
from heliograph.cli import run as command
from heliograph.serving import client as client_module
from heliograph.serving.coming import Coming
from heliograph.serving.spool import Body, Spool
from heliograph.serving.wire import Written
from serving_rig import DIGIT, expected, party, running


@pytest.fixture(scope="module")
def secret() -> hg.SecretKey[Any, Any]:
    """One for all."""
    return hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))


@pytest.mark.parametrize("shape", [(1,), (40,)])
def test_tensors_are_written_as_they_are_sent(secret: Any, shape: tuple[int, ...]) -> None:
    """The bytes of `to_bytes`, in pieces of some size; what the sender raises comes out."""
    tensors = [secret.encrypt(np.full((*shape, 4), k), pad=True) for k in range(2)]
    body, sent = Written(tensors), list[bytes]()
    body.write(lambda piece: sent.append(bytes(piece)))
    assert b"".join(sent) == b"".join(t.to_bytes() for t in tensors)
    assert body.sizes == tuple(len(t.to_bytes()) for t in tensors)
    assert max(map(len, sent)) <= 256 << 10
    assert len(sent) <= body.nbytes // (64 << 10) + 6

    def cut(piece: memoryview) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        body.write(cut)


def coming(path: Path, data: bytes) -> Coming:
    """Of a file that is there, of which nothing is said to be."""
    path.write_bytes(data)
    return Coming(str(path), len(data))


def test_a_request_is_read_while_it_comes(secret: Any, tmp_path: Path) -> None:
    """No byte is looked at before it is said to be there; a damaged one is found all the same."""
    server, x = hg.Server(secret.evaluation_keys()), secret.encrypt(np.arange(8).reshape(2, 4), pad=True)
    data, waited = x.to_bytes(), list[int]()
    with coming(tmp_path / "request", data) as whole:
        part, arrived = whole.part(0, len(data))

        def slowly() -> None:
            for have in range(0, len(data), len(data) // 5):
                time.sleep(0.01)
                whole.more(have)
            whole.more(len(data))

        def waits(count: int) -> None:
            arrived(count)
            waited.append(count)
            assert whole._have >= count

        feeder = threading.Thread(target=slowly)
        feeder.start()
        with part:
            y = server._from_coming(part, waits)
        feeder.join()
    assert np.array_equal(secret.decrypt(y)[:, :4], np.arange(8).reshape(2, 4))
    assert waited[-1] == len(data)
    damaged = bytearray(data)
    damaged[-1000] ^= 1
    with coming(tmp_path / "damaged", bytes(damaged)) as whole:
        whole.more(len(data))
        part, arrived = whole.part(0, len(data))
        with part, pytest.raises(hg.DamagedFileError):
            server._from_coming(part, arrived)


def test_a_request_that_does_not_come_to_its_end(secret: Any, tmp_path: Path) -> None:
    """Whoever waits for the rest hears so."""
    server, data = hg.Server(secret.evaluation_keys()), secret.encrypt([1, 2], pad=True).to_bytes()
    with coming(tmp_path / "request", data) as whole:
        whole.more(len(data) // 2)
        threading.Timer(0.05, whole.drop).start()
        part, arrived = whole.part(0, len(data))
        with part, pytest.raises(hg.CancelledError, match="did not come"):
            server._from_coming(part, arrived)


def test_where_requests_lie(tmp_path: Path) -> None:
    """In memory, half of which is one client's at most; the next in a file; both are gone when they are closed."""
    spool = Spool(160)
    first, second = spool.take("ann", 80, tmp_path / "first"), spool.take("ann", 80, tmp_path / "second")
    assert [request.in_memory for request in (first, second)] == [True, False]
    for request in (first, second):
        request.write(b"x" * 50)
        request.write(memoryview(b"y" * 30))
        assert Path(request.path).read_bytes() == b"x" * 50 + b"y" * 30
        request.close()
        request.close()
        assert not Path(request.path).exists()
    assert spool.held == 0
    assert spool.take("ann", 79, tmp_path / "third").in_memory
    assert spool.take("bob", 80, tmp_path / "fourth").in_memory
    assert not spool.take("carl", 2, tmp_path / "fifth").in_memory

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    taken = list[bytes | memoryview]()
    with pytest.raises(StopIteration):
        Body(pieces()).pour(taken.append).send(None)
    assert taken == [b"one", b"two"]


def test_a_file_that_is_sent(tmp_path: Path) -> None:
    """Read piece by piece; one that is cut short meanwhile is an error, not a signal."""
    data = os.urandom(9 << 20)
    (tmp_path / "keys").write_bytes(data)
    with client_module._File(str(tmp_path / "keys")) as file:
        assert client_module._digest_of(file) == hashlib.sha256(data).hexdigest()
        assert file[5:9] == data[5:9]
        os.truncate(tmp_path / "keys", 1 << 20)
        with pytest.raises(hg.DamagedFileError, match="cut short"):
            client_module._digest_of(file)
    (tmp_path / "empty").touch()
    with pytest.raises(hg.DamagedFileError, match="empty"), client_module._opened(str(tmp_path / "empty"), "keys"):
        pass


def test_keys_larger_than_memory_are_inspected(
    secret: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is read once and found whole, or not; what was not looked at is not said to be checked."""
    keys, path = secret.evaluation_keys(rotations=[1, 2, 3, 4, 5]), tmp_path / "keys.hg"
    keys.save(path)
    assert command(["inspect", str(path)]) == 0
    assert "digest and every residue" in capsys.readouterr().out
    monkeypatch.setattr(explain, "_room", lambda: 2 * secret.parameters.switch_key_bytes)
    assert command(["inspect", str(path)]) == 0
    assert "whole: digest and shapes" in capsys.readouterr().out
    data = bytearray(path.read_bytes())
    data[-5000] ^= 1
    path.write_bytes(data)
    assert command(["inspect", str(path)]) == 1
    assert "DAMAGED" in capsys.readouterr().out


# At a service


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sealed once."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(name)
    return rig.seal(tmp_path_factory.mktemp("models"))


def client_of(service: rig.Running, model: str, **options: Any) -> hg.Client:
    """By HTTP alone."""
    return hg.Client(f"http://127.0.0.1:{service.ports['http']}", model=model, **options)


def test_a_request_that_is_cut_while_an_engine_reads_it(models: list[Path], tmp_path: Path) -> None:
    """Nothing of it stays, and the next request is read and answered on a connection that is kept."""
    with running(models[1], "--store", tmp_path / "store") as service:
        client = client_of(service, "slow")
        secret = party(client)
        body = client.model.encrypt(secret, DIGIT).to_bytes()
        engines = service.engines()
        with socket.create_connection(("127.0.0.1", service.ports["http"])) as line:
            query = f"id=cutcutcutcutcutcut&model=slow&keys={client.keys}&parts={len(body)}"
            head = f"POST /v1/jobs?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            line.sendall(head.encode() + body[: len(body) // 2])
            service.until(lambda: client.status()["queue"]["unfinished"] == 1)
        service.until(lambda: client.status()["queue"]["unfinished"] == 0)
        for _ in range(2):
            assert np.array_equal(client.run(DIGIT), expected())
        assert service.engines() == engines
        assert not [words for words in service.events("fault") if words]


def test_keys_larger_than_an_engines_memory(models: list[Path], tmp_path: Path) -> None:
    """They stay in their file, and answers are right."""
    model = hg.SealedModel.load(models[0])
    room = model.memory_bytes + (2 << 20)
    with running(models[0], "--store", tmp_path / "store", "--memory", str(room)) as service:
        client = client_of(service, "digits")
        secret = hg.SecretKey.generate(client.model.parameters)
        needs = client.model.needs
        keys = secret.evaluation_keys(**needs | {"rotations": sorted({*needs["rotations"], *range(1, 40)})})
        assert keys.nbytes > room
        client.upload_keys(keys)
        again = client_of(service, "digits", secret=secret, keys=client.keys)
        assert np.array_equal(again.run(DIGIT), expected())
        (engine,) = service.engines()
        held = [path.readlink() for path in Path(f"/proc/{engine}/fd").iterdir() if path.is_symlink()]
        assert f"{client.keys}.hg" in [path.name for path in held]  # it reads them there
