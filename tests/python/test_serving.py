"""Tests a service with its clients: digits over TLS, interrupted uploads, missing keys, limits, cancelled jobs, metrics."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import signal
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from alike import in_threads
from serving_rig import DIGIT, Place, expected, party

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Runs one service for most tests; each test has separate clients or keys."""
    made = Place(tmp_path_factory.mktemp("service"), "ann", "bob", "carl")
    with made.running("--client-ca", made.authority.file, "--metrics-address", "127.0.0.1:0"):
        yield made


def request(place: Place, method: str, path: str, body: Any = None, name: str = "ann", **headers: str) -> Any:
    """Sends a request as any HTTP client would; returns the status, headers and body."""
    context = ssl.create_default_context(cafile=str(place.authority.file))
    line = http.client.HTTPSConnection("localhost", place.service.ports["http"], context=context, timeout=rig.PATIENCE)
    told = {key.replace("_", "-"): text for key, text in headers.items()}
    line.request(method, path, body, {"Authorization": f"Bearer {place.tokens[name]}"} | told)
    reply = line.getresponse()
    data = reply.read()
    line.close()
    return reply.status, reply.headers, data


# Classification of a digit


def test_a_digit_end_to_end(place: Place) -> None:
    """Keys are uploaded once. Then digits are encrypted, computed on and decrypted, also by several threads of one client."""
    whole = hg.ModelBundle.load(place.models[0])
    with place.client(digest=whole.digest) as client:
        assert not client.model.complete
        assert [model["name"] for model in client.models()] == ["digits", "slow"]
        secret, shares = hg.SecretKey.generate(client.model.parameters), list[float]()
        digest = client.upload_keys(secret, shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1
        assert client.keys == digest
        assert np.array_equal(client.run(DIGIT), expected())
        answer = client.run(client.model.encrypt(secret, DIGIT))
        assert isinstance(answer, hg.Tensor)
        assert np.array_equal(client.model.decrypt(secret, answer, like=DIGIT), expected())
        digits = [np.random.default_rng(k).integers(0, 17, (8, 8)) for k in range(6)]
        for digit, scores in zip(digits, in_threads(lambda k: client.run(digits[k]), 6), strict=True):
            assert np.array_equal(scores, expected(digit))
        assert digest in [kept["digest"] for kept in client.uploads()]
        assert client.status()["store"]["keys"] >= 1


def test_asyncio_tasks_run_concurrently(place: Place) -> None:
    """Several asyncio tasks run concurrently."""
    client = place.client()
    party(client)

    async def several() -> list[Any]:
        return await asyncio.gather(*(client.arun(DIGIT) for _ in range(4)))

    assert all(np.array_equal(scores, expected()) for scores in asyncio.run(several()))


def test_keys_in_a_file_and_another_process_of_the_client(place: Place, tmp_path: Path) -> None:
    """Keys that the service already has are not sent again. A client that knows their digest needs no keys."""
    first = place.client()
    secret = hg.SecretKey.generate(first.model.parameters)
    first.model.keys(secret).save(tmp_path / "keys.hg")
    digest = first.upload_keys(tmp_path / "keys.hg")
    assert digest == hashlib.sha256((tmp_path / "keys.hg").read_bytes()).hexdigest()
    shares: list[float] = []
    assert place.client().upload_keys(str(tmp_path / "keys.hg"), shares.append) == digest
    assert shares == []
    assert np.array_equal(place.client(secret=secret, keys=digest).run(DIGIT), expected())


def test_a_pinned_digest_refuses_another_model(place: Place) -> None:
    """A client with a pinned digest refuses another model."""
    with pytest.raises(hg.MismatchError, match="has the digest"):
        place.client(digest="0" * 64)
    with pytest.raises(hg.UnknownModelError, match="use one of digits, slow"):
        place.client(model="cats")


def test_progress_of_a_run(place: Place) -> None:
    """The progress callback gets stages and shares. If the callback raises an exception, the job is cancelled."""
    client = place.client(model="slow")
    party(client)
    seen: list[tuple[str, float]] = []
    assert np.array_equal(client.run(DIGIT, progress=lambda stage, share: seen.append((stage, share))), expected())
    assert seen
    assert all(stage and 0 <= share <= 1 for stage, share in seen)

    def enough(stage: str, share: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.run(DIGIT, progress=enough)
    place.service.until(lambda: client.status()["queue"]["unfinished"] == 0)


# Authentication


def test_a_missing_key_file_is_named(place: Place, tmp_path: Path) -> None:
    """If the certificate exists and its key file does not, the error names the key file."""
    with pytest.raises(FileNotFoundError) as raised:
        hg.Client(
            place.address,
            model="digits",
            certificate=place.authority.issue("dora"),
            key=tmp_path / "nosuch.pem",
            ca=place.authority.file,
        )
    assert raised.value.filename == str(tmp_path / "nosuch.pem")


def test_authentication(place: Place) -> None:
    """Missing tokens, wrong tokens, certificates of another authority, and services with an authority that the client does
    not trust are refused.
    """
    for token in (None, "wrong"):
        with pytest.raises(hg.AccessError, match="token or certificate"):
            hg.Client(place.address, model="digits", token=token, ca=place.authority.file)
    dora = hg.Client(place.address, model="digits", certificate=place.authority.issue("dora"), ca=place.authority.file)
    party(dora)
    assert np.array_equal(dora.run(DIGIT), expected())
    place.service.until(lambda: "certificate:dora" in [e["client"] for e in place.service.events("object_uploaded")])
    (place.folder / "other").mkdir(exist_ok=True)
    stranger = rig.Authority(place.folder / "other")
    # the error is raised at once, without retries
    with pytest.raises(hg.AccessError, match=r"refuses this client: .*unknown ca"):
        hg.Client(place.address, model="digits", certificate=stranger.issue("dora"), ca=place.authority.file)
    with pytest.raises(hg.ParameterError, match=r"tokens holds no certificate"):
        hg.Client(place.address, certificate=place.folder / "tokens", ca=place.authority.file)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pem"):
        hg.Client(place.address, ca=place.folder / "nowhere.pem")
    with pytest.raises(hg.UnreachableError, match="use https"):
        hg.Client(place.address.replace("https", "http"), model="digits", timeout=rig.PATIENCE)
    with pytest.raises(hg.UnreachableError, match="cannot trust the certificate"):
        hg.Client(place.address, model="digits", token=place.tokens["ann"], ca=stranger.file)
    with pytest.raises(hg.SecurityError, match="use https"):
        hg.Client("http://example.org", token="x")
    with pytest.raises(hg.UnreachableError, match="does not answer"):
        hg.Client("http://127.0.0.1:9", model="digits", timeout=0.2)


def test_tokens_are_read_again(place: Place) -> None:
    """SIGHUP reloads the file of tokens. If this file is damaged, nothing changes."""
    path = place.folder / "tokens"
    before = path.read_text()
    token, line = rig.token_of("eve")
    path.write_text(before + line + "\n")
    place.service.signal(signal.SIGHUP)
    place.service.until(lambda: place.service.events("tokens_reloaded"))
    assert hg.Client(place.address, token=token, ca=place.authority.file).models()
    path.write_text("nonsense\n")
    place.service.signal(signal.SIGHUP)
    place.service.until(lambda: place.service.events("tokens_reload_failed"))
    assert hg.Client(place.address, token=token, ca=place.authority.file).models()
    path.write_text(before)


# Uploads


def test_an_interrupted_upload_continues(place: Place) -> None:
    """If an upload is interrupted within a piece, it continues after the received bytes and sends each remaining byte once."""
    client = place.client()
    data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
    digest, there = hashlib.sha256(data).hexdigest(), 6 << 20
    before = received(place)  # when the service detects the end, it counts the bytes of the interrupted piece
    request(place, "PUT", f"/v1/blobs/{digest}", data[: 4 << 20], Upload_Offset="0", Upload_Length=str(len(data)))
    context = ssl.create_default_context(cafile=str(place.authority.file))
    plain = socket.create_connection(("localhost", place.service.ports["http"]))
    with context.wrap_socket(plain, server_hostname="localhost") as line:
        head = f"PUT /v1/blobs/{digest} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {place.tokens['ann']}\r\n"
        head += f"Content-Length: {4 << 20}\r\nUpload-Offset: {4 << 20}\r\nUpload-Length: {len(data)}\r\n\r\n"
        line.sendall(head.encode() + data[4 << 20 : there + 700_000])
        place.service.until(lambda: offset(place, digest) >= there)
    sent = list[float]()
    client._upload(memoryview(data), sent.append)
    assert there / len(data) < sent[0] <= sent[-1] == 1
    assert received(place) - before <= len(data)
    assert request(place, "HEAD", f"/v1/blobs/{digest}")[1]["Upload-Complete"] == "?1"


def offset(place: Place, digest: str) -> int:
    """Returns how many bytes of an upload were received."""
    return int(request(place, "HEAD", f"/v1/blobs/{digest}")[1]["Upload-Offset"])


def received(place: Place) -> float:
    """Returns how many bytes of bodies were received in total, from the metrics."""
    return float(
        next(line.split()[1] for line in metrics(place).splitlines() if line.startswith("heliograph_received_bytes_total"))
    )


def metrics(place: Place) -> str:
    """Returns the metrics in Prometheus' text format."""
    with urllib.request.urlopen(f"http://127.0.0.1:{place.service.ports['metrics']}/metrics", timeout=rig.PATIENCE) as reply:
        found: str = reply.read().decode()
    return found


def test_invalid_uploads_are_refused(place: Place, tmp_path: Path) -> None:
    """Damaged data, wrong lengths, data that are not keys, and secret keys are refused by typed errors and are not stored."""
    client = place.client()
    secret = hg.SecretKey.generate(client.model.parameters)
    data = bytearray(client.model.keys(secret).to_bytes())
    digest = hashlib.sha256(data).hexdigest()
    data[-100_000] ^= 1
    start = 0
    for start in range(0, len(data) - (4 << 20), 4 << 20):
        client._piece(digest, memoryview(data)[start : start + (4 << 20)], start, len(data))
    with pytest.raises(hg.DamagedFileError, match="another digest"):
        client._piece(digest, memoryview(data)[start + (4 << 20) :], start + (4 << 20), len(data))
    assert request(place, "HEAD", f"/v1/blobs/{digest}")[1]["Upload-Offset"] == "0"
    for wrong, error, words in (
        (secret.secret_bytes(), hg.FormatError, "SECRET key"),
        (client.model.encrypt(secret, DIGIT).to_bytes(), hg.FormatError, "must hold evaluation keys"),
        (b"no container" * 20, hg.FormatError, "not a Heliograph"),
        (bytes(data[:-1]), hg.DamagedFileError, "oversized|truncated"),
    ):
        with pytest.raises(error, match=words):
            client._upload(memoryview(wrong), None)
        (tmp_path / "wrong.hg").write_bytes(wrong)
        with pytest.raises(error, match=words):
            client.upload_keys(tmp_path / "wrong.hg")
        assert request(place, "HEAD", f"/v1/blobs/{hashlib.sha256(wrong).hexdigest()}")[1]["Upload-Offset"] == "0"
    status, headers, body = request(place, "PUT", f"/v1/blobs/{digest}", b"x" * 64, Upload_Offset="64", Upload_Length="128")
    assert (status, headers["Heliograph-Error"]) == (409, "UploadError")
    assert json.loads(body)["error"]["offset"] == 0
    assert (
        request(place, "PUT", f"/v1/blobs/{digest}", b"x" * (9 << 20), Upload_Offset="0", Upload_Length=str(9 << 20))[0]
        == 413
    )
    assert request(place, "PUT", "/v1/blobs/../../etc", b"x", Upload_Offset="0", Upload_Length="1")[0] in (400, 404)
    assert request(place, "PUT", f"/v1/blobs/{digest}", b"x", Upload_Offset="-1", Upload_Length="1")[0] == 400


def test_missing_keys(place: Place) -> None:
    """Unknown keys, keys of another client and revoked keys each raise a different error."""
    ann, bob = place.client(), place.client("bob")
    secret = party(ann)
    digest = ann.keys
    assert digest is not None
    for client, keys, error in ((ann, "0" * 64, hg.UnknownKeyError), (bob, digest, hg.ForeignKeyError)):
        other = place.client("ann" if client is ann else "bob", secret=secret, keys=keys)
        with pytest.raises(error):
            other.run(DIGIT)
    with pytest.raises(hg.ForeignKeyError):
        bob.revoke(digest)
    ann.revoke()
    with pytest.raises(hg.RevokedKeyError, match="revoked"):
        ann.run(DIGIT)
    with pytest.raises(hg.RevokedKeyError):
        ann._piece(digest, memoryview(b"x" * 64), 0, 64)  # revoked keys cannot be uploaded again


def test_keys_that_do_not_match_are_refused(place: Place, tmp_path: Path) -> None:
    """Keys with too few rotations, keys of another set, and a request with another key are refused."""
    client = place.client()
    secret = hg.SecretKey.generate(client.model.parameters)
    few = secret.evaluation_keys(rotations=[1])
    with pytest.raises(hg.MissingKeyError, match="rotations"):
        client.upload_keys(few)  # the client refuses this
    few.save(tmp_path / "few.hg")
    with pytest.raises(hg.MissingKeyError, match="which the model digits needs"):
        client.upload_keys(tmp_path / "few.hg")  # the service refuses this
    other = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20)).evaluation_keys()
    other.save(tmp_path / "other.hg")
    with pytest.raises(hg.MismatchError, match=r"(other|different) parameters"):
        client.upload_keys(tmp_path / "other.hg")
    party(client)
    with pytest.raises(hg.WrongKeyError):
        client.run(client.model.encrypt(secret, DIGIT))
    reals = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20)).evaluation_keys()
    foreign = place.client(model=None).upload_keys(reals)  # keys of another scheme
    with pytest.raises(hg.MismatchError, match=r"(other|different) parameters"):
        place.client(keys=foreign, secret=secret).run(DIGIT)
    for digest in ("../../etc", 5, "0" * 63):
        with pytest.raises(hg.ParameterError, match="SHA-256"):
            client.revoke(digest)  # type: ignore[arg-type]


# Jobs


def post(place: Place, client: hg.Client, id: str, body: bytes, **query: Any) -> Any:
    """Sends a job with this id."""
    told = {"id": id, "model": "digits", "keys": client.keys, "parts": len(body) or "", "wait": 20} | query
    return request(place, "POST", "/v1/jobs?" + "&".join(f"{k}={v}" for k, v in told.items()), body)


def test_a_job_is_computed_once(place: Place) -> None:
    """A job that is sent repeatedly is computed once. A job of another client with the same id is a different job."""
    client = place.client()
    secret = party(client)
    body, id = client.model.encrypt(secret, DIGIT).to_bytes(), "once" * 8
    first = post(place, client, id, body)
    assert first[0] == 200
    assert [post(place, client, id, body) for _ in range(2)][1][2] == first[2]
    done = place.service.until(
        lambda: [words["outcome"] for words in place.service.events("job_ended") if words["job"] == id[:8]]
    )
    assert done == ["done"]
    assert request(place, "GET", f"/v1/jobs/{id}/answer")[2] == first[2]
    assert request(place, "GET", f"/v1/jobs/{id}/answer", name="bob")[0] == 404


def test_invalid_jobs(place: Place) -> None:
    """Jobs with impossible ids, sizes or kinds are refused, and so are damaged requests and requests of another shape."""
    client = place.client()
    secret = party(client)
    body = client.model.encrypt(secret, DIGIT).to_bytes()
    for query, status in (
        ({"id": "short"}, 400),
        ({"kind": "anything"}, 400),
        ({"parts": "1,2"}, 413),
        ({"parts": "-5"}, 400),
        ({"seconds": "soon"}, 400),
        ({"model": "cats"}, 404),
        ({"keys": "../../etc"}, 404),
    ):
        assert post(place, client, body=body, **{"id": f"wrong{time.time_ns()}", **query})[0] == status, query
    assert post(place, client, f"large{time.time_ns()}", b"x" * (4 << 20))[0] == 413
    damaged = bytearray(body)
    damaged[-1000] ^= 1
    status, headers, _ = post(place, client, f"damaged{time.time_ns()}", bytes(damaged))
    assert (status, headers["Heliograph-Error"]) == (400, "DamagedFileError")
    with pytest.raises(hg.ShapeError):
        client.run(client.model.encrypt(secret, DIGIT).reshape(1, 1))


def test_a_cancelled_job_frees_its_engine(place: Place) -> None:
    """If a job is cancelled during its computation, its engine is free at once and runs the next job."""
    client, quick = place.client(model="slow"), place.client("bob")
    party(client)
    party(quick)
    engines = place.service.engines()

    def computed_by(run: Callable[[], Any]) -> float:
        """Returns how much processor time the engines use during a call."""
        before = rig.computed(engines)
        run()
        return rig.computed(engines) - before

    # A long job: several digits in one request. The first runs are not measured, because they load the keys into the engine.
    digits = np.stack([DIGIT] * 8)
    for _ in range(2):
        short = computed_by(lambda: quick.run(DIGIT))
        whole = computed_by(lambda: client.run(digits))

    async def cancelled() -> None:
        task = asyncio.create_task(client.arun(digits))
        while not any(e["jobs"] for e in (await asyncio.to_thread(client.status))["engines"]):
            await asyncio.sleep(0.01)
        before = rig.computed(engines)
        while rig.computed(engines) - before < whole / 8:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def cancel_and_run() -> None:
        asyncio.run(cancelled())
        assert np.array_equal(quick.run(DIGIT), expected())
        spent = [0.0, rig.computed(engines)]
        while spent[-1] > spent[-2]:  # waits until the engine is idle
            time.sleep(0.3)
            spent.append(rig.computed(engines))

    assert computed_by(cancel_and_run) < 0.75 * whole + short  # the engine did not compute the rest of the job
    assert place.service.engines() == engines
    ended = [
        words["outcome"]
        for words in place.service.events("job_ended")
        if words["model"] == "slow" and words["kind"] == "run"
    ]
    assert ended[-1] == "CancelledError"


def told(ask: Callable[[], Any]) -> Any:
    """Returns the answer of the service. Retries, because on a busy machine an answer may come more than a second after the
    client's deadline.
    """
    for _ in range(20):
        try:
            return ask()
        except hg.UnreachableError as error:
            silent = error
    raise silent


def test_a_missed_deadline_is_an_error(place: Place) -> None:
    """A job that misses its deadline ends with an error. A job that cannot meet its deadline is not started."""
    client = place.client("carl", model="slow")
    party(client)
    with pytest.raises((hg.DeadlineError, hg.BusyError)):
        told(lambda: client.run(DIGIT, deadline=0.3))
    place.service.until(lambda: client.status()["engines"][0]["jobs"] == 0)
    assert np.array_equal(client.run(DIGIT), expected())
    with pytest.raises(hg.BusyError, match="would not be done"):
        told(lambda: client.run(DIGIT, deadline=0.05))
    for seconds in (0, -1, float("nan"), float("inf"), "1", True):
        with pytest.raises(hg.ParameterError, match="a deadline must be a number of seconds"):
            client.run(DIGIT, deadline=seconds)  # type: ignore[arg-type]
        with pytest.raises(hg.ParameterError, match="a timeout must be a number of seconds"):
            hg.Client(place.address, timeout=seconds)  # type: ignore[arg-type]
    hasty = place.client("carl", model="slow", keys=client.keys, secret=client._secret)
    hasty.timeout = 0.3
    with pytest.raises((hg.DeadlineError, hg.BusyError), match=r"0\.3 s"):
        told(lambda: hasty.run(DIGIT, deadline=30))


def test_revoking_keys_ends_their_jobs(place: Place) -> None:
    """Revoking keys ends the jobs that use them, also the running job."""
    client = place.client(model="slow")
    party(client)
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            client.run(DIGIT)
        except hg.HeliographError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    place.service.until(lambda: client.status()["engines"][0]["jobs"])
    client.revoke()
    thread.join(rig.PATIENCE)
    assert [type(error) for error in failed] == [hg.RevokedKeyError]


# Metrics, log and pages


def test_metrics_and_log_contain_no_secrets(place: Place) -> None:
    """Metrics and log count events and do not contain values, tokens, full digests or keys."""
    client = place.client("bob")
    secret = party(client)
    client.run(DIGIT)
    with pytest.raises(hg.AccessError):
        hg.Client(place.address, token="wrong-token", ca=place.authority.file).models()
    text = metrics(place)
    assert 'heliograph_refusals_total{error="AccessError"}' in text
    assert 'heliograph_job_duration_seconds_count{model="digits"}' in text
    for name in (
        "requests_total",
        "queue_length",
        "received_bytes_total",
        "sent_bytes_total",
        "stored_bytes",
        "process_resident_memory_bytes",
    ):
        assert f"heliograph_{name}" in text
    log = place.service.text
    assert all({"time", "level", "event"} <= json.loads(line).keys() for line in place.service.lines)
    for secret_text in (*place.tokens.values(), "wrong-token", str(client.keys), secret.id, str(DIGIT[0].tolist())):
        assert secret_text not in log + text


def test_pages(place: Place) -> None:
    """The status page and the demo page load nothing from other hosts and state where encryption happens."""
    for path, words in (("/", "A service of Heliograph"), ("/demo", "does not encrypt")):
        status, headers, body = request(place, "GET", path)
        assert status == 200
        assert words in body.decode()
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "http://" not in body.decode().replace("http://127.0.0.1", "").replace('"http:"', "")
    assert request(place, "GET", "/readyz")[2] == b"ok\n"
    status, _, body = request(place, "GET", "/v1/status")
    assert "ann" not in body.decode()
    assert request(place, "GET", "/v1/nothing")[0] == 404
