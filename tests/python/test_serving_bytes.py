"""Request bodies are serialized while they are sent, stored in memory or in a file, and parsed while they are received. Also
tests uploads of files.
"""

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
from heliograph.client import client as client_module
from heliograph.client.http_client import TensorBody
from heliograph.serving.incoming import IncomingRequest
from heliograph.serving.spool import Body, Spool
from serving_rig import DIGIT, client_of, expected, party, running


@pytest.fixture(scope="module")
def secret() -> hg.SecretKey[Any, Any]:
    """Returns the shared secret key."""
    return hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))


@pytest.mark.parametrize("shape", [(1,), (40,)])
def test_tensors_are_serialized_while_sent(secret: Any, shape: tuple[int, ...]) -> None:
    """A tensor is serialized in pieces while it is sent. The pieces together are the bytes of `to_bytes`, and an exception
    of the sender propagates.

    """
    tensors = [secret.encrypt(np.full((*shape, 4), k), pad=True) for k in range(2)]
    body, sent = TensorBody(tensors), list[bytes]()
    body.write(lambda piece: sent.append(bytes(piece)))
    assert b"".join(sent) == b"".join(t.to_bytes() for t in tensors)
    assert body.sizes == tuple(len(t.to_bytes()) for t in tensors)
    assert max(map(len, sent)) <= 256 << 10
    assert len(sent) <= body.nbytes // (64 << 10) + 6

    def cut(piece: memoryview) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        body.write(cut)


def coming(path: Path, data: bytes) -> IncomingRequest:
    """Returns an incoming body in a file, with no byte marked as received."""
    path.write_bytes(data)
    return IncomingRequest(str(path), len(data))


def test_a_request_is_parsed_while_received(secret: Any, tmp_path: Path) -> None:
    """The parser reads no byte before this byte is marked as received, and the parser detects damage."""
    server, x = hg.Server(secret.evaluation_keys()), secret.encrypt(np.arange(8).reshape(2, 4), pad=True)
    data, waited = x.to_bytes(), list[int]()
    with coming(tmp_path / "request", data) as whole:
        part, arrived = whole.part(0, len(data))

        def slowly() -> None:
            for have in range(0, len(data), len(data) // 5):
                time.sleep(0.01)
                whole.set_arrived(have)
            whole.set_arrived(len(data))

        def waits(count: int) -> None:
            arrived(count)
            waited.append(count)
            assert whole._arrived >= count

        feeder = threading.Thread(target=slowly)
        feeder.start()
        with part:
            y = server._from_stream(part, waits)
        feeder.join()
    assert np.array_equal(secret.decrypt(y)[:, :4], np.arange(8).reshape(2, 4))
    assert waited[-1] == len(data)
    damaged = bytearray(data)
    damaged[-1000] ^= 1
    with coming(tmp_path / "damaged", bytes(damaged)) as whole:
        whole.set_arrived(len(data))
        part, arrived = whole.part(0, len(data))
        with part, pytest.raises(hg.DamagedFileError):
            server._from_stream(part, arrived)


def test_an_incomplete_request_ends_its_readers(secret: Any, tmp_path: Path) -> None:
    """If the body ends early, readers that wait for it get an error."""
    server, data = hg.Server(secret.evaluation_keys()), secret.encrypt([1, 2], pad=True).to_bytes()
    with coming(tmp_path / "request", data) as whole:
        whole.set_arrived(len(data) // 2)
        threading.Timer(0.05, whole.drop).start()
        part, arrived = whole.part(0, len(data))
        with part, pytest.raises(hg.CancelledError, match="stopped sending"):
            server._from_stream(part, arrived)


def test_request_bodies_are_in_memory_or_files(tmp_path: Path) -> None:
    """Request bodies are stored in memory, then in files. One client may use half of the memory for request bodies. Memory
    and files are released when the body is closed.

    """
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
    assert spool.used == 0
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


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    """A file is uploaded in pieces. If the file is truncated during the upload, an error is raised and no signal occurs."""
    data = os.urandom(9 << 20)
    (tmp_path / "keys").write_bytes(data)
    with client_module._File(str(tmp_path / "keys")) as file:
        assert client_module._digest_of(file) == hashlib.sha256(data).hexdigest()
        assert file[5:9] == data[5:9]
        os.truncate(tmp_path / "keys", 1 << 20)
        with pytest.raises(hg.DamagedFileError, match="truncated while"):
            client_module._digest_of(file)
    (tmp_path / "empty").touch()
    with pytest.raises(hg.DamagedFileError, match="empty"), client_module._opened(str(tmp_path / "empty"), "keys"):
        pass


def test_keys_larger_than_memory_are_inspected(
    secret: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """inspect reads a file of keys once, with or without verification. inspect states only the checks that it made."""
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
    """Writes the model files once."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(name)
    return rig.export(tmp_path_factory.mktemp("models"))


def test_a_request_that_is_cut_while_an_engine_reads_it(models: list[Path], tmp_path: Path) -> None:
    """If a request is cut off while an engine reads it, nothing of it remains, and the next request works on the open
    connection.
    """
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
        assert not service.errors()


def test_keys_larger_than_an_engines_memory(models: list[Path], tmp_path: Path) -> None:
    """Keys that are larger than the memory of an engine stay in their file, and answers are correct."""
    model = hg.ModelBundle.load(models[0])
    memory = model.memory_bytes + (2 << 20)
    with running(models[0], "--store", tmp_path / "store", "--memory-limit", str(memory)) as service:
        client = client_of(service, "digits")
        secret = hg.SecretKey.generate(client.model.parameters)
        needs = client.model.needs
        keys = secret.evaluation_keys(**needs | {"rotations": sorted({*needs["rotations"], *range(1, 40)})})
        assert keys.nbytes > memory
        client.upload_keys(keys)
        again = client_of(service, "digits", secret=secret, keys=client.keys)
        assert np.array_equal(again.run(DIGIT), expected())
        (engine,) = service.engines()
        held = [path.readlink() for path in Path(f"/proc/{engine}/fd").iterdir() if path.is_symlink()]
        assert f"{client.keys}.hg" in [path.name for path in held]  # the engine holds the file open
