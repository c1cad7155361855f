"""Tests the pages of the service in Chromium: digits are drawn by mouse, finger and keys; also tests which hosts the pages
contact.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import browser_rig
import heliograph as hg
import serving_rig as rig
from browser_rig import Browser, Page
from heliograph import nn
from heliograph.cli.demo_client import DemoClient, http_server
from heliograph.cli.pen_digits import DIGITS
from serving_rig import DIGIT, Running, go_on, running, stop

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("cryptography")
pytestmark = pytest.mark.skipif(browser_rig.found() is None, reason="Chromium is not installed")


class Place:
    """A service with TLS and tokens, its client on this machine, and a browser that trusts the service's certificate."""

    def __init__(self, service: Running, authority: Path, token: str, browser: Browser) -> None:
        self.service, self.authority, self.token, self.browser = service, authority, token, browser
        self.client_address = f"https://localhost:{service.ports['http']}"
        self.client = hg.Client(self.client_address, model="digits", token=token, ca=authority)
        self.secret = rig.party(self.client)

    @property
    def origin(self) -> str:
        """The origin of the service, as browsers define it."""
        return f"https://127.0.0.1:{self.service.ports['http']}"

    @contextmanager
    def companion(self, allowed: str | None = None) -> Iterator[str]:
        """Runs the page of the client process and returns its address."""
        with http_server(DemoClient(self.client, self.secret, allowed), 0) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Runs one service for all tests. As for users, the browser regards the service as being in a public network."""
    folder = tmp_path_factory.mktemp("pages")
    authority, (digits, _) = rig.Authority(folder), rig.export(folder)
    pem, token = authority.issue("localhost"), rig.tokens(folder / "tokens", "ann")["ann"]
    with running(digits, "--store", folder / "store", "--tls-cert", pem, "--tokens", folder / "tokens") as service:
        port = service.ports["http"]
        with browser_rig.browser(f"--ip-address-space-overrides=127.0.0.1:{port}=public") as browser:
            yield Place(service, authority.file, token, browser)


def opened(place: Place, address: str, **window: Any) -> Page:
    """Opens a page in a new window."""
    page = place.browser.page(**window)
    page.ask("Security.setIgnoreCertificateErrors", ignore=True)
    page.go(address)
    return page


def draw(page: Page, digit: int) -> None:
    """Draws the strokes of a digit point by point."""
    for stroke in DIGITS[digit]:
        page.draw("#canvas", [(0.25 + x / 2, 0.15 + 0.7 * y) for x, y in stroke])


def read(page: Page) -> str:
    """Clicks the button and returns the answer."""
    page.click("#send")
    page.until(
        "document.querySelector('#time').innerText.startsWith('Encrypted') || document.querySelector('#said').innerText"
    )
    assert page.text("#said") == ""
    return page.text("#answer")


def fits(page: Page) -> bool:
    """Returns whether the page fits the width of the window."""
    return bool(page.value("document.documentElement.scrollWidth <= window.innerWidth"))


# The client's own page


def test_digits_are_drawn_and_read(place: Place) -> None:
    """Digits that are drawn by mouse are classified. The scores equal the unencrypted network's, and only the client process
    is contacted.

    """
    with place.companion() as address:
        page = opened(place, address)
        page.reads("Connected to the client process on this machine: digits", "#where")
        assert "does not encrypt" in page.text()
        assert "came from the service" not in page.text()
        for digit in (3, 0, 7, 1):
            draw(page, digit)
            assert read(page) == str(digit)
            assert "Encrypted picture: 8 x 8 numbers" in page.text("#caption")
            rows = [line.split() for line in page.text("#scores").replace("\n\t", " ").splitlines()]
            clear = nn.load("digits").clear_logits([page.value("pixels()")])[0]
            assert [int(row[-1]) for row in rows] == clear.tolist()
            page.click("#clear")
            assert page.text("#answer") == page.text("#scores") == ""
        assert page.hosts() == {address}
        assert page.complaints() == []


def test_digits_are_drawn_by_finger(place: Place) -> None:
    """Digits can be drawn by finger in a narrow window; the page does not scroll and fits the width of the window."""
    with place.companion() as address:
        page = opened(place, address, width=320, height=560, phone=True)
        page.reads("Connected", "#where")
        draw(page, 2)
        assert len(page.value("strokes")) == len(DIGITS[2])
        assert read(page) == "2"
        assert fits(page)
        assert page.complaints() == []


def test_digits_are_drawn_by_keys(place: Place) -> None:
    """A 1 can be drawn and classified by keys alone: Tab to the board, arrows and space, Tab to the button, Enter."""
    with place.companion() as address:
        page = opened(place, address)
        page.reads("Connected", "#where")
        page.press("Tab")
        assert page.value("document.activeElement.id") == "canvas"
        assert "Arrow keys" in page.value("document.activeElement.ariaLabel")
        page.press("ArrowUp", 7)
        page.press(" ")
        page.press("ArrowDown", 14)
        page.press(" ")
        page.press("ArrowLeft", 3)  # moves the pen without drawing
        assert [len(stroke) for stroke in page.value("strokes")] == [15]
        page.press("Tab")
        assert page.value("document.activeElement.id") == "send"
        page.press("Enter")
        page.reads("Encrypted, classified and decrypted", "#time")
        assert page.text("#answer") == "1"


def test_an_empty_drawing_and_a_missing_process(place: Place, tmp_path: Path) -> None:
    """If the drawing is empty or the client process has ended, the page of `heliograph client --page-port` reports this."""
    (tmp_path / "token").write_text(place.token)
    places = ["--token-file", tmp_path / "token", "--ca", place.authority, "--secret", tmp_path / "secret.hg"]
    command = ["client", place.client_address, "--model", "digits", "--page-port", "0", *places]
    with rig.started(*command) as process:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        page = opened(place, address)
        page.reads("Connected", "#where")
        page.click("#send")
        page.reads("Draw a digit first.", "#said")
        draw(page, 5)
        assert read(page) == "5"
    page.click("#send")
    page.reads("The client process does not answer any more", "#said")
    assert page.value("!document.getElementById('send').disabled")


def test_an_error_of_the_service_is_shown(place: Place) -> None:
    """The name of an error of the service is shown. The drawing stays and can be sent again."""
    with place.companion() as address:
        page = opened(place, address)
        page.reads("Connected", "#where")
        draw(page, 6)
        place.client.revoke()
        page.click("#send")
        page.reads("RevokedKeyError: ", "#said")
        place.client._keys = "0" * 64  # the service no longer knows the keys, so the client process uploads them again
        assert read(page) == "6"
        timeout, place.client.timeout = place.client.timeout, 0.5
        (engine,) = place.service.engines()
        stop(engine)
        try:
            page.click("#send")
            page.reads("Error: ", "#said")
            assert page.text("#answer") == ""
        finally:
            go_on(engine)
            place.client.timeout = timeout
        assert read(page) == "6"


# The service's page


def test_the_services_page_is_refused(place: Place) -> None:
    """Without --allow-origin, a page of another origin can neither read from the client process nor write to it. The page
    states the reason.

    """
    with place.companion() as address:
        page = opened(place, place.origin + "/demo")
        allow_own_machine(page, place.origin)
        assert "This copy of the page came from the service" in page.text()
        page.type("#number", address.rpartition(":")[2])
        page.click("#form button")
        page.reads("refuses this page: it was started without --allow-origin " + place.origin, "#said")
        for method, kind in (("GET", "{}"), ("POST", "{method: 'POST', body: '{}'}"), ("POST", json_post())):
            told = page.value(
                f"fetch('{address}/{'model' if method == 'GET' else 'classify'}', {kind}).then(r => r.status, e => e.name)"
            )
            assert told == "TypeError"  # a page cannot read a response that was refused
        jobs = len(place.service.events("job_ended"))
        page.value(f"fetch('{address}/classify', {{mode: 'no-cors', method: 'POST', body: '{{}}'}}).catch(e => e.name)")
        assert len(place.service.events("job_ended")) == jobs
        assert page.hosts() == {place.origin, address}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 200),
        ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),  # a link on another site
        ("/model", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ("/model", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("/model", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ("/model", {"Origin": "https://elsewhere.example"}, 403),
        ("/model", {"Origin": "null"}, 403),
        ("/", {"Host": "elsewhere.example"}, 403),  # a DNS name of another site for this machine
    ],
)
def test_origins_of_the_client_process(place: Place, path: str, headers: dict[str, str], status: int) -> None:
    """For each path, the client process decides whether to answer by the headers in which the browser describes the
    requesting page.

    """
    with place.companion() as address:
        line = http.client.HTTPConnection(address.removeprefix("http://"), timeout=120)
        line.request("GET", path, headers=headers)
        assert line.getresponse().status == status
        line.close()


def json_post() -> str:
    """Returns the options of a fetch() call as the page itself makes it."""
    body = json.dumps({"pixels": DIGIT.tolist()})
    return f"{{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: '{body}'}}"


def allow_own_machine(page: Page, origin: str, allow: bool = True) -> None:
    """Answers the prompt in which the browser asks whether a page may reach this machine."""
    for name in ("local-network-access", "loopback-network"):
        page.browser.ask(
            "Browser.setPermission",
            permission={"name": name},
            setting="granted" if allow else "denied",
            origin=origin,
            browserContextId=page.context,
        )


def test_an_allowed_service_page_works(place: Place) -> None:
    """With --allow-origin, the page of the service works by way of the client process, which answers the preflight requests
    of the browser.
    """
    with place.companion(allowed=place.origin) as address:
        page = opened(place, place.origin + "/demo", width=360, height=640, phone=True)
        allow_own_machine(page, place.origin)
        assert f"--allow-origin {place.origin}" in page.text("#command")
        page.type("#number", address.rpartition(":")[2])
        page.click("#form button")
        page.reads("Connected", "#where")
        draw(page, 4)
        assert read(page) == "4"
        assert fits(page)
        assert page.hosts() == {place.origin, address}
        assert page.complaints() == []


def test_a_denied_permission_is_reported(place: Place) -> None:
    """If the user denies the page access to this machine, the page reports this and the remedy."""
    with place.companion(allowed=place.origin) as address:
        page = opened(place, place.origin + "/demo")
        allow_own_machine(page, place.origin, allow=False)
        page.type("#number", address.rpartition(":")[2])
        page.click("#form button")
        page.reads(f"No client process answers at {address}", "#said")
        assert "If your browser asked" in page.text("#said")


# The status page


def test_the_status_page(place: Place) -> None:
    """With a token, the models and the queue are shown. A wrong token and an unreachable service are reported."""
    page = opened(place, place.origin + "/")
    page.reads("This service requires a token.", "#said")
    assert "Models" not in page.text()
    for typed, told in (
        ("wrong", "The service does not know this token."),
        ("a b", "A token must be"),
        ("é", "A token must be"),
    ):
        page.type("#token", typed)
        page.click("#form button")
        page.reads(told, "#said")
    page.type("#token", place.token)
    page.press("Enter")
    page.reads("digits", "#models")
    assert page.text("#said") == ""
    assert "one 8x8 digit at low latency" in page.text("#models")
    now = dict(line.split("\t", 1) for line in page.text("#now").splitlines())
    assert now["queued jobs"] == "0 of at most 64"
    assert now["engine"] == "ready, 0 jobs"
    assert int(now["stored keys"]) >= 1
    assert page.hosts() == {place.origin}
    assert all("401" in said for said in page.complaints())
    assert fits(page)
    assert place.token not in page.value("document.documentElement.outerHTML")


def test_the_status_page_while_it_changes(tmp_path: Path, place: Place) -> None:
    """A running job appears without reloading. When the service has ended, the page states how old its numbers are."""
    digits = rig.export(tmp_path)[0]
    with running(digits, "--store", tmp_path / "store") as service:
        page = opened(place, f"http://127.0.0.1:{service.ports['http']}/", width=320, height=560, phone=True)
        page.reads("digits", "#models")
        client = hg.Client(f"http://127.0.0.1:{service.ports['http']}", model="digits")
        rig.party(client)
        (engine,) = service.engines()
        stop(engine)
        asking = threading.Thread(target=client.run, args=(DIGIT,), daemon=True)
        asking.start()
        page.reads("ready, 1 job", "#now", 10.0)
        go_on(engine)
        asking.join(20)
        page.reads("ready, 0 jobs", "#now", 10.0)
        assert fits(page)
        assert page.complaints() == []
        service.signal(signal.SIGKILL)
        page.reads("The service does not answer. The data below are from ", "#said", 10.0)
        assert "digits" in page.text("#models")


# Both pages


def test_content_injected_into_a_page_does_not_run(place: Place) -> None:
    """The content security policy blocks injected scripts, styles, frames and pictures, and requests to other hosts."""
    pages = [opened(place, f"{place.origin}{path}") for path in ("/", "/demo")]
    for page in pages:
        page.value("document.body.insertAdjacentHTML('beforeend', '<p id=x onclick=\"window.ran = 1\">x</p>')")
        page.value("document.getElementById('x').click()")
        page.value("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
        assert page.value("window.ran === undefined")
        assert page.value("fetch('https://127.0.0.2:1/').then(() => 1, e => e.name)") == "TypeError"
        assert any("Content Security Policy" in said for said in page.complaints())
        assert page.hosts() == {place.origin}
