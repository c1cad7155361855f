"""Memory of connections that have ended, and pauses of the service: no full garbage collection is needed for either."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import socket
import ssl
import struct
import time
from collections import Counter
from pathlib import Path

import pytest

from serving_rig import Authority

uvicorn = pytest.importorskip("uvicorn")

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: E402

from heliograph.serving.bounds import bounded  # noqa: E402
from heliograph.serving.certificates import Certificates  # noqa: E402
from heliograph.serving.connections import Connections, listening  # noqa: E402
from heliograph.serving.garbage import Collector  # noqa: E402
from heliograph.serving.protocol import protocol_of  # noqa: E402

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
    """Ten connections that ask once and end."""
    context = ssl.create_default_context(cafile=authority)
    for _ in range(10):
        plain = socket.create_connection(("127.0.0.1", port), 10)
        with context.wrap_socket(plain, server_hostname="localhost") as line:
            if ends == "reset":
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if ends == "silent":
                time.sleep(0.05)  # until the service has made the connection, which waits for a request
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
        config = uvicorn.Config(
            app,
            http=protocol_of(bounded(HttpToolsProtocol, connections)),
            **{"ws": "none", "lifespan": "off", "log_config": None, "timeout_keep_alive": 60},
        )
        config.load()
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext
        running = asyncio.create_task(server.serve(sockets=[]))
        while not server.started:
            await asyncio.sleep(0.01)
        protocol = functools.partial(
            config.http_protocol_class, config=config, server_state=server.server_state, app_state=server.lifespan.state
        )
        context = Certificates(certificate, None, None, None, required=False).context
        listener.start(protocol, context, lambda: False)
        await asyncio.to_thread(_asked, listener.getsockname()[1], authority.file, ends)
        while len(connections):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        left = Counter(type(one).__name__ for one in gc.get_objects())
        listener.close()
        server.should_exit = True
        await running
        return left

    left = asyncio.run(served())
    assert not {name: left[name] for name in _LARGE if left[name] > 2}  # the last task may still hold one


def test_a_step_looks_at_young_objects_only() -> None:
    busy = True
    collector = Collector(lambda: busy)
    collector.collect()
    old = [[] for _ in range(40_000)]
    old.append(old)
    collector.step()
    before, full = gc.get_freeze_count(), collector.full
    assert before > 40_000
    del old  # a cycle that no step looks at any more
    collector.step()
    assert collector.full == full
    assert gc.get_freeze_count() >= before
    busy = False
    collector.step()  # a pause delays no job now
    assert collector.full == full + 1
    assert gc.get_freeze_count() < before - 30_000


def test_a_busy_service_collects_all_once_its_objects_have_doubled() -> None:
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


def test_a_collector_that_ends_leaves_all_to_python() -> None:
    async def run() -> None:
        task = asyncio.create_task(Collector(lambda: False).run())
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > 0
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())
    assert gc.get_freeze_count() == 0
