"""A service on a host of its own, and what happens between: links that go down, packets that are lost, slow and vanished clients."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import net_rig
import serving_rig as rig
from net_rig import Hosts
from serving_rig import DIGIT, Running, expected, go_on, party, running, stop

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

_REASON = net_rig.reason_for_none()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=_REASON or "hosts are there")


class Place:
    """A service at one end of a link. This process is at the other."""

    def __init__(self, net: Hosts, service: Running, store: Path) -> None:
        self.net, self.service, self.host = net, service, net.names[0]
        self.address = f"http://{net.addresses[self.host]}:{service.ports['http']}"
        self.store = store

    def client(self, model: str = "digits", **options: Any) -> hg.Client:
        """Over the link."""
        return hg.Client(self.address, model=model, **options)

    def until_computed(self) -> None:
        """Waits for a job that an engine has."""
        asking = self.client()
        self.service.until(lambda: asking.status()["engines"][0]["jobs"])

    def down_for(self, seconds: float) -> threading.Thread:
        """The link: down now, up on another thread."""
        self.net.cut(self.host)

        def up() -> None:
            time.sleep(seconds)
            self.net.join(self.host)

        thread = threading.Thread(target=up)
        thread.start()
        return thread


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A second host is there for clients."""
    models = rig.seal(tmp_path)
    with net_rig.hosts(2, tmp_path) as net:
        name = net.names[0]
        options = ["--store", tmp_path / "store", "--host", net.addresses[name], "--insecure"]
        with running(*models, *options, host=name) as service:
            yield Place(net, service, tmp_path / "store")


class Uploading(threading.Thread):
    """Keys on their way, and what became of it. `after` is called once the first piece is there."""

    def __init__(self, client: hg.Client, keys: Any, after: Any = lambda: None) -> None:
        super().__init__(daemon=True)
        self.client, self.keys, self.after, self.shares = client, keys, after, list[float]()
        self.came: Any = None
        self.start()

    def run(self) -> None:
        """Sends them."""

        def told(share: float) -> None:
            self.shares.append(share)
            if len(self.shares) == 1:
                self.after()

        try:
            self.came = self.client.upload_keys(self.keys, told)
        except hg.HeliographError as error:
            self.came = error


def test_a_link_that_goes_down_in_an_upload_and_in_a_job(place: Place) -> None:
    """For some seconds each: the client goes on when it is up again, and what was there is not sent again."""
    client = place.client()
    secret = hg.SecretKey.generate(client.model.parameters)
    keys = client.model.keys(secret)
    size = len(keys.to_bytes())
    before, ups = place.net.counted(place.host)[0], list[threading.Thread]()
    uploading = Uploading(client, keys, lambda: ups.append(place.down_for(2.0)))
    uploading.join(40)
    assert uploading.came == client.keys
    ups[0].join()
    assert place.net.counted(place.host)[0] - before < 1.5 * size + (1 << 20)
    client._secret = secret
    (engine,) = place.service.engines()
    stop(engine)
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(client.run(DIGIT)), daemon=True)
    asking.start()
    place.until_computed()
    up = place.down_for(2.0)
    go_on(engine)
    place.service.until(lambda: len(place.service.events("job")) == 2)  # it is done while the link is down
    up.join()
    asking.join(40)
    assert np.array_equal(answers[0], expected())
    assert [job["attempts"] for job in place.service.events("job")] == [1, 1]


@pytest.mark.full
def test_a_link_that_is_down_for_longer_than_a_try(place: Place) -> None:
    """Each try ends without an answer: the next ones wait, within the client's timeout for a piece, and an upload ends whole."""
    client = place.client(timeout=4.0)
    keys = client.model.keys(hg.SecretKey.generate(client.model.parameters))
    ups: list[threading.Thread] = []
    first = Uploading(client, keys, lambda: ups.append(place.down_for(9.0)))
    first.join(40)
    assert isinstance(first.came, hg.UnreachableError)
    ups[0].join()
    second = Uploading(place.client(timeout=20.0), keys)
    second.join(40)
    assert isinstance(second.came, str)
    assert second.shares[0] > first.shares[0]  # it went on there


def test_packets_that_are_lost(place: Place) -> None:
    """One in twenty: uploads and jobs end well."""
    if reason := place.net.lossy(place.host, 0.05):
        pytest.skip(f"packets cannot be lost here: {reason}")
    client = place.client()
    party(client)
    for _ in range(3):
        assert np.array_equal(client.run(DIGIT), expected())


_SLOW = """
import sys, time
import heliograph as hg
client = hg.Client(sys.argv[1])
client._piece("0" * 64, memoryview(bytes(1 << 20)), 0, 1 << 20)
"""


def test_a_slow_client(place: Place) -> None:
    """One whose line carries 1 kB a second holds up nobody: others upload and ask as if it were not there."""
    slow = place.net.names[1]
    if reason := place.net.slow(slow, "8kbit"):
        pytest.skip(f"links cannot be made slow here: {reason}")
    client = place.client()
    party(client)
    client.run(DIGIT)
    command = ["ip", "netns", "exec", slow, sys.executable, "-c", _SLOW, place.address]
    with subprocess.Popen(
        command, env={"PYTHONPATH": ":".join(p for p in sys.path if p)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            place.service.until(lambda: list(place.store.glob(f"*/{'0' * 64}.*")), 30.0)
            for _ in range(5):
                assert np.array_equal(client.run(DIGIT), expected())
            other = place.client()
            party(other)
            assert process.poll() is None  # it is still at it
            (part,) = place.store.glob(f"*/{'0' * 64}.*")
            assert part.stat().st_size < 1 << 19
        finally:
            process.kill()


def vain(client: hg.Client) -> None:
    """A run that gets no answer."""
    with pytest.raises(hg.HeliographError):
        client.run(DIGIT)


def test_a_client_that_vanishes(place: Place) -> None:
    """With a job under way, its link cut for good: the job ends at its deadline, and others' go on at once."""
    client = place.client(timeout=3.0)
    party(client)
    (engine,) = place.service.engines()
    stop(engine)
    asking = threading.Thread(target=vain, args=(client,), daemon=True)
    asking.start()
    place.until_computed()
    place.net.cut(place.host)
    failed = place.service.until(
        lambda: [job for job in place.service.events("job") if job["outcome"] == "DeadlineError"], 10.0
    )
    assert 2.5 < failed[0]["seconds"] < 6
    go_on(engine)
    place.net.join(place.host)
    other = place.client()
    party(other)
    assert np.array_equal(other.run(DIGIT), expected())
    assert other.status()["queue"]["unfinished"] == 0


@pytest.mark.full
def test_a_client_that_vanishes_while_it_sends(place: Place) -> None:
    """A request of which half came: what came is let go after half a minute without a byte, and its place in the queue is free."""
    client = place.client("slow")
    party(client)
    sending = threading.Thread(target=vain, args=(client,), daemon=True)
    reason = place.net.slow(place.host, "8mbit")  # 12 MB take as many seconds
    if reason:
        pytest.skip(f"links cannot be made slow here: {reason}")
    sending.start()
    asking = place.client()
    place.service.until(lambda: asking.status()["queue"]["unfinished"])
    place.net.cut(place.host)
    refused = place.service.until(lambda: place.service.events("refused"), 60.0)
    assert refused[0]["error"] == "DeadlineError"
    place.net.join(place.host)
    assert place.client().status()["queue"]["unfinished"] == 0
