"""Tests a service on a separate virtual host under network faults: links that fail, packet loss, slow clients and clients
that vanish.
"""

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
pytestmark = pytest.mark.skipif(_REASON is not None, reason=_REASON or "virtual hosts are available")


class Place:
    """A service at one end of a virtual link; the process of the test is at the other end."""

    def __init__(self, net: Hosts, service: Running, store: Path) -> None:
        self.net, self.service, self.host = net, service, net.names[0]
        self.address = f"http://{net.addresses[self.host]}:{service.ports['http']}"
        self.store = store

    def client(self, model: str = "digits", **options: Any) -> hg.Client:
        """Returns a client that connects over the link."""
        return hg.Client(self.address, model=model, **options)

    def until_computed(self) -> None:
        """Waits until an engine has a job."""
        asking = self.client()
        self.service.until(lambda: asking.status()["engines"][0]["jobs"])

    def down_for(self, seconds: float) -> threading.Thread:
        """Takes the link down at once, and up again later on another thread."""
        self.net.cut(self.host)

        def up() -> None:
            time.sleep(seconds)
            self.net.join(self.host)

        thread = threading.Thread(target=up)
        thread.start()
        return thread


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Runs a service on one host; a second host is for clients."""
    models = rig.export(tmp_path)
    with net_rig.hosts(2, tmp_path) as net:
        name = net.names[0]
        options = ["--store", tmp_path / "store", "--host", net.addresses[name], "--insecure"]
        with running(*models, *options, host=name) as service:
            yield Place(net, service, tmp_path / "store")


class Uploading(threading.Thread):
    """Uploads keys on a separate thread and holds the result. `after` is called after the first piece was sent."""

    def __init__(self, client: hg.Client, keys: Any, after: Any = lambda: None) -> None:
        super().__init__(daemon=True)
        self.client, self.keys, self.after, self.shares = client, keys, after, list[float]()
        self.came: Any = None
        self.start()

    def run(self) -> None:
        """Sends the keys."""

        def told(share: float) -> None:
            self.shares.append(share)
            if len(self.shares) == 1:
                self.after()

        try:
            self.came = self.client.upload_keys(self.keys, told)
        except hg.HeliographError as error:
            self.came = error


def test_clients_continue_after_a_link_was_down(place: Place) -> None:
    """A link is down for seconds during an upload and a job. The client continues, and bytes that were received are not sent
    again.
    """
    client = place.client()
    secret = hg.SecretKey.generate(client.model.parameters)
    keys = client.model.keys(secret)
    size = len(keys.to_bytes())
    before, ups = place.net.counted(place.host)[0], list[threading.Thread]()
    uploading = Uploading(client, keys, lambda: ups.append(place.down_for(2.0)))
    uploading.join(rig.PATIENCE)
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
    place.service.until(lambda: len(place.service.events("job_ended")) == 2)  # the job ends while the link is down
    up.join()
    asking.join(rig.PATIENCE)
    assert np.array_equal(answers[0], expected())
    assert [job["attempts"] for job in place.service.events("job_ended")] == [1, 1]


@pytest.mark.full
def test_a_link_may_be_down_longer_than_an_attempt(place: Place) -> None:
    """Attempts time out while the link is down. Later attempts continue within the timeout of the client, and the upload
    completes.

    """
    client = place.client(timeout=4.0)
    keys = client.model.keys(hg.SecretKey.generate(client.model.parameters))
    ups: list[threading.Thread] = []
    first = Uploading(client, keys, lambda: ups.append(place.down_for(9.0)))
    first.join(rig.PATIENCE)
    assert isinstance(first.came, hg.UnreachableError)
    ups[0].join()
    second = Uploading(place.client(timeout=20.0), keys)
    second.join(rig.PATIENCE)
    assert isinstance(second.came, str)
    assert second.shares[0] > first.shares[0]  # the upload continued after the received bytes


def test_uploads_and_jobs_survive_packet_loss(place: Place) -> None:
    """With 5 % packet loss, uploads and jobs succeed."""
    if reason := place.net.lossy(place.host, 0.05):
        pytest.skip(f"packet loss cannot be set up: {reason}")
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
    """A client on a line of 1 kB/s does not delay the uploads and jobs of other clients."""
    slow = place.net.names[1]
    if reason := place.net.slow(slow, "8kbit"):
        pytest.skip(f"slow links cannot be set up: {reason}")
    client = place.client()
    party(client)
    client.run(DIGIT)
    command = ["ip", "netns", "exec", slow, sys.executable, "-c", _SLOW, place.address]
    with subprocess.Popen(
        command, env={"PYTHONPATH": ":".join(p for p in sys.path if p)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            place.service.until(lambda: list(place.store.glob(f"*/{'0' * 64}.*")))
            for _ in range(5):
                assert np.array_equal(client.run(DIGIT), expected())
            other = place.client()
            party(other)
            assert process.poll() is None  # the slow upload is still in progress
            (part,) = place.store.glob(f"*/{'0' * 64}.*")
            assert part.stat().st_size < 1 << 19
        finally:
            process.kill()


def vain(client: hg.Client) -> None:
    """Runs a job that must fail."""
    with pytest.raises(hg.HeliographError):
        client.run(DIGIT)


def test_a_client_that_vanishes(place: Place) -> None:
    """The link of a client is cut during its job: the job ends at its deadline, and other jobs continue at once."""
    client = place.client()
    party(client)
    client.timeout = 3.0
    (engine,) = place.service.engines()
    stop(engine)
    asking = threading.Thread(target=vain, args=(client,), daemon=True)
    asking.start()
    place.until_computed()
    place.net.cut(place.host)
    failed = place.service.until(
        lambda: [job for job in place.service.events("job_ended") if job["outcome"] == "DeadlineError"]
    )
    assert failed[0]["seconds"] > 2.5
    go_on(engine)
    place.net.join(place.host)
    other = place.client()
    party(other)
    assert np.array_equal(other.run(DIGIT), expected())
    assert other.status()["queue"]["unfinished"] == 0


@pytest.mark.full
def test_a_client_that_vanishes_during_a_request(place: Place) -> None:
    """Half of a request is received, then the link is cut. After 30 s without data the request is dropped and its place is
    free.

    """
    client = place.client("slow")
    party(client)
    sending = threading.Thread(target=vain, args=(client,), daemon=True)
    reason = place.net.slow(place.host, "8mbit")  # at this rate, a request of 12 MB takes 12 s
    if reason:
        pytest.skip(f"slow links cannot be set up: {reason}")
    sending.start()
    asking = place.client()
    place.service.until(lambda: asking.status()["queue"]["unfinished"])
    place.net.cut(place.host)
    refused = place.service.until(lambda: place.service.events("request_refused"))
    assert refused[0]["error"] == "DeadlineError"
    place.net.join(place.host)
    assert place.client().status()["queue"]["unfinished"] == 0
