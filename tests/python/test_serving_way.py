"""Tests how a service stores and sends the data of a job: reused memory, answers in memory and in files, heads and bodies of
requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.serving import spool as spool_module
from heliograph.serving.spool import Answer, Spool
from serving_rig import DIGIT, Place, expected, party

for needed in ("starlette", "uvicorn", "prometheus_client", "cryptography"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Runs one service for all tests."""
    made = Place(tmp_path_factory.mktemp("service"), "ann")
    with made.running():
        yield made


# Memory


def test_memory_of_a_request_is_reused(tmp_path: Path) -> None:
    """When an engine has read a request completely, its memory is used for the next request of equal size. Otherwise the
    memory is released.

    """
    spool = Spool(1 << 20)
    first = spool.take("ann", 100, tmp_path / "first")
    first.place()[:60] = b"x" * 60
    first.placed(60)
    first.write(b"y" * 40)
    assert Path(first.path).read_bytes() == b"x" * 60 + b"y" * 40
    first.close(read=True)
    assert spool.used == 0
    other, again = spool.take("ann", 99, tmp_path / "other"), spool.take("ann", 100, tmp_path / "again")
    assert other.path != first.path
    assert (again.path, again.have, len(again.place())) == (first.path, 0, 100)
    again.close()  # the engine may still read this memory
    assert not Path(first.path).exists()
    other.close(read=True)
    spool.sweep()
    assert not Path(other.path).exists()


def test_retained_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service keeps a limited amount of memory: the blocks that were returned last."""
    monkeypatch.setattr(spool_module, "_SPARE", 250)
    spool = Spool(1 << 20)
    requests = [spool.take("ann", size, tmp_path / str(size)) for size in (100, 90, 80, 300)]
    for request in requests:
        request.close(read=True)
    assert [Path(request.path).exists() for request in requests] == [False, True, True, False]


def test_mapped_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beyond the limit of mapped memory are written to memory files that are not mapped."""
    monkeypatch.setattr(spool_module, "_MAPPED", 150)
    spool = Spool(1 << 20)
    first, second = (spool.take("ann", 100, tmp_path / name) for name in ("first", "second"))
    assert [len(request.place()) for request in (first, second)] == [100, 0]
    second.write(b"z" * 100)
    assert second.in_memory
    assert Path(second.path).read_bytes() == b"z" * 100
    first.close()
    assert len(spool.take("ann", 120, tmp_path / "third").place()) == 120


# Answers


def filled(answer: Answer, data: bytes) -> Answer:
    """Writes an answer in the same way as an engine."""
    descriptor = os.open(answer.output_path(), os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, data)
    os.close(descriptor)
    answer.take(len(data))
    return answer


def told(answer: Answer) -> bytes:
    """Returns the bytes of an answer in the pieces in which they are sent."""

    async def gathered() -> bytes:
        return b"".join([piece async for piece in answer.pieces(7)])

    found = asyncio.run(gathered())
    assert found == answer.read()
    return found


def test_answers_in_memory_and_in_files(tmp_path: Path) -> None:
    """Small answers are in memory; if there are many, the oldest answers move to files. Answers in memory and in files give
    the same bytes, and both are released at the end.
    """
    spool, data = Spool(0, 100), [bytes([65 + k]) * (30 + k) for k in range(4)]
    answers = [filled(spool.answer(30, tmp_path / str(k)), data[k]) for k in range(2)]
    assert not list(tmp_path.iterdir())
    assert spool.oldest() is answers[0]  # the answers take 61 of 100 bytes
    answers[0].save()
    answers[0].saved()
    assert (spool.answers, spool.oldest()) == (31, None)
    assert (tmp_path / "0").read_bytes() == data[0]
    answers += [filled(spool.answer(expected, tmp_path / str(k)), data[k]) for k, expected in ((2, None), (3, 70))]
    # an answer of unknown size, and an answer that is too large
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2", "3"]
    assert [told(answer) for answer in answers] == data
    for answer in answers:
        answer.close()
    assert not list(tmp_path.iterdir())
    assert spool.answers == 0


def test_an_answer_dropped_during_its_save_leaves_no_file(tmp_path: Path) -> None:
    """If an answer is dropped while it is saved, no file remains."""
    spool = Spool(0, 100)
    answer = filled(spool.answer(80, tmp_path / "answer"), b"a" * 80)
    answer.save()
    answer.close()
    answer.saved()
    assert not list(tmp_path.iterdir())
    assert (spool.answers, spool.oldest()) == (0, None)


def test_memory_lent_to_an_engine_is_exclusive(tmp_path: Path) -> None:
    """Memory that is shared with an engine is not given to another answer. Bytes that the engine did not write are not sent."""
    spool = Spool(0, 1000)
    one, two = spool.answer(10, tmp_path / "one"), spool.answer(10, tmp_path / "two")
    assert one.output_path() == one.output_path() != two.output_path()
    one.close()
    assert one.is_shared
    assert spool.answer(10, tmp_path / "three").output_path() not in (two.output_path(), str(tmp_path / "three"))
    where = one.output_path()
    one.release()
    again = spool.answer(10, tmp_path / "four")
    assert again.output_path() == where
    with pytest.raises(hg.DeviceError, match="less"):
        again.take(10)
    assert not again.is_shared


def test_small_answers_are_not_written_to_disk(place: Place) -> None:
    """After a digit is classified, the folder of the service is empty, and the answer can be read again."""
    with place.client() as client:
        party(client)
        for _ in range(3):
            assert np.array_equal(client.run(DIGIT), expected())
        assert not list((place.folder / "store" / "spool").iterdir())
        assert client.status()["queue"]["unfinished"] == 0


# Connections


def connected(place: Place) -> ssl.SSLSocket:
    """Opens a TLS connection."""
    context = ssl.create_default_context(cafile=str(place.authority.file))
    line = socket.create_connection(("localhost", place.service.ports["http"]), timeout=120)
    return context.wrap_socket(line, server_hostname="localhost")


def replied(line: ssl.SSLSocket) -> tuple[int, bytes]:
    """Returns status and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(name.split(b":")[1]) for name in head.split(b"\r\n") if name.lower().startswith(b"content-length"))
    while len(body) < length:
        body += line.recv(1 << 16)
    return int(head.split()[1]), body


def head_of(place: Place, client: hg.Client, id: str, nbytes: int, *more: str) -> bytes:
    """Returns the head of the request for a job."""
    query = f"id={id}&model=digits&keys={client.keys}&parts={nbytes}&wait=20"
    lines = [f"POST /v1/jobs?{query} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {place.tokens['ann']}"]
    return "\r\n".join([*lines, f"Content-Length: {nbytes}", *more, "", ""]).encode()


def test_head_and_body_are_sent_in_one_write(place: Place) -> None:
    """Head and body are sent in one write, so a client wakes up only once."""
    from heliograph.serving.uvicorn_protocol import _sender, _Transport

    written = list[list[bytes]]()

    class Plain:
        """A transport that records all writes and when it is closed."""

        def writelines(self, lines: list[bytes]) -> None:
            """Records a write of several pieces."""
            written.append(lines)

        def write(self, data: bytes) -> None:
            """Records a write of one piece."""
            written.append([data])

        def close(self) -> None:
            """Records that the transport is closed."""
            written.append([])

    async def sent() -> None:
        transport = _Transport(Plain())

        async def send(message: dict[str, Any]) -> None:
            transport.write(message["body"])
            if message.get("last"):
                transport.close()

        joined = _sender(send, transport)
        await joined({"type": "http.response.start", "body": b"head"})
        assert not written
        await joined({"type": "http.response.body", "body": b"one"})
        await joined({"type": "http.response.body", "body": b"two"})
        await joined({"type": "http.response.start", "body": b"head"})
        await joined({"type": "http.response.body", "body": b"all", "last": True})

    asyncio.run(sent())
    assert written == [[b"head", b"one"], [b"two"], [b"head", b"all"], []]
    with connected(place) as line:
        for _ in range(3):
            line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert replied(line) == (200, b"ok\n")


@pytest.mark.parametrize("sizes", [(0,), (1, 2, 3), (70_000, 70_000), (150_000, 1), (197_000,)])
def test_a_body_may_arrive_in_pieces(place: Place, sizes: tuple[int, ...]) -> None:
    """A body that arrives in pieces, with its head or later, gives the same answer, and the connection stays open."""
    with place.client() as client, connected(place) as line:
        secret = party(client)
        body = client.model.encrypt(secret, DIGIT).to_bytes()
        data = head_of(place, client, f"pieces-{len(sizes)}-{sizes[0]}-pieces", len(body)) + body[: sizes[0]]
        line.sendall(data)
        start = sizes[0]
        for size in (*sizes[1:], len(body)):
            time.sleep(0.05)
            line.sendall(body[start : start + size])
            start += size
        status, answer = replied(line)
        assert status == 200, answer
        scores = client.model.decrypt(secret, hg.from_bytes(answer, hg.Tensor), like=DIGIT)
        assert np.array_equal(scores, expected())
        line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert replied(line) == (200, b"ok\n")


def test_a_body_that_waits_for_100_continue(place: Place) -> None:
    """A client that waits for "100 Continue" gets it; if it is refused, it gets the error instead."""
    with place.client() as client, connected(place) as line:
        secret = party(client)
        body = client.model.encrypt(secret, DIGIT).to_bytes()
        line.sendall(head_of(place, client, "leave-to-send-leave", len(body), "Expect: 100-continue"))
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        line.sendall(body)
        assert replied(line)[0] == 200
        client.revoke()
        line.sendall(head_of(place, client, "refused-to-send-refused", len(body)) + body)
        status, said = replied(line)
        assert (status, json.loads(said)["error"]["name"]) == (410, "RevokedKeyError")
