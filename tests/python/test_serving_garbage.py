"""Closed connections leave no garbage. The service runs a full garbage collection of Python only when it is idle."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import time
from collections import Counter
from pathlib import Path

import pytest

from serving_rig import Authority

pytest.importorskip("uvicorn")

from heliograph.serving.certificates import Certificates
from heliograph.serving.connections import Connections, listening
from heliograph.serving.garbage import Collector
from heliograph.serving.uvicorn_protocol import HttpServer

pytestmark = pytest.mark.usefixtures("_collected_by_hand")

_LARGE = {"SSLProtocol", "Handshake", "_SSLSocket", "MemoryBIO", "Protocol", "RequestResponseCycle", "FlowControl"}


@pytest.fixture
def _collected_by_hand():
    gc.collect()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def _asked(port: int, authority: Path, ends: str) -> None:
    """Opens ten connections, each of which sends one request and ends."""
    context = ssl.create_default_context(cafile=authority)
    for _ in range(10):
        plain = socket.create_connection(("127.0.0.1", port), 120)
        with context.wrap_socket(plain, server_hostname="localhost") as line:
            if ends == "reset":
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if ends == "silent":
                time.sleep(0.05)  # gives the service time to accept the connection and to wait for a request
            else:
                line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * (3 if ends == "pipelined" else 1))
                assert line.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("ends", ["closed", "reset", "silent", "pipelined"])
def test_a_connection_that_ended_leaves_no_buffers(ends: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("localhost")

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def served() -> Counter[str]:
        connections = Connections(100, 100)
        listener = listening("127.0.0.1", 0, connections)
        server = HttpServer(app, connections, 60.0)
        running = await server.start()
        context = Certificates(certificate, None, None, None, required=False).context
        listener.start(server.protocol, context, lambda: False)
        await asyncio.to_thread(_asked, listener.getsockname()[1], authority.file, ends)
        while len(connections):
            await asyncio.sleep(0.01)
        for _ in range(200):  # waits until the tasks of the last connection have ended
            await asyncio.sleep(0.05)
            left = Counter(type(one).__name__ for one in gc.get_objects())
            if all(left[name] <= 2 for name in _LARGE):
                break
        listener.close()
        server.stop()
        await running
        return left

    left = asyncio.run(served())
    assert not {name: left[name] for name in _LARGE if left[name] > 2}  # the last task may keep one object


def test_a_collection_step_examines_young_objects_only() -> None:
    busy = True
    collector = Collector(lambda: busy)
    collector.collect()
    old = [[] for _ in range(40_000)]
    old.append(old)
    collector.step()
    before, full = gc.get_freeze_count(), collector.full
    assert before > 40_000
    del old  # old objects are not examined in later steps
    collector.step()
    assert collector.full == full
    assert gc.get_freeze_count() >= before
    busy = False
    collector.step()  # in this step a full collection delays no job
    assert collector.full == full + 1
    assert gc.get_freeze_count() < before - 30_000


def test_a_busy_service_collects_all_after_its_objects_have_doubled() -> None:
    collector = Collector(lambda: True)
    collector.collect()
    full, count = collector.full, gc.get_freeze_count()
    for _ in range(200):
        old = [[] for _ in range(10_000)]
        old.append(old)
        collector.step()
        del old
        if collector.full > full:
            break
    assert collector.full == full + 1
    assert gc.get_freeze_count() < count + 20_000


def test_a_collector_that_ends_restores_pythons_collection() -> None:
    async def run() -> None:
        task = asyncio.create_task(Collector(lambda: False).run())
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > 0
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())
    assert gc.get_freeze_count() == 0
