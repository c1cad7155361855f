"""TLS of a service whose files may change while it runs: each handshake has the certificate, the authorities and the revocation lists
that were read last.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._arrays import printable
from heliograph.serving.connections import PEER
from heliograph.serving.retrying import reason
from heliograph.serving.wire import pem

_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
Failed = Callable[[str, str, str | None], None]


class Handshake(ssl.SSLObject):
    """A handshake that tells a client that its certificate is refused: asyncio would close before the alert is sent.

    So the error is held back until the client has heard and closed, or asyncio's time for handshakes is over.
    """

    on_failure: Failed | None = None
    _failed = False
    _peer: str | None = None

    def do_handshake(self) -> None:
        """As `ssl.SSLObject` has it."""
        if self._failed:
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            certificate = isinstance(error, ssl.SSLCertVerificationError) or error.reason == _NO_CERTIFICATE
            if self.on_failure is not None:
                why = getattr(error, "verify_message", None) or reason(error)
                self.on_failure("certificate" if certificate else "protocol", why, self._peer)
            if not certificate:
                raise
            self._failed = True
            raise ssl.SSLWantReadError from None


class _Latest(ssl.SSLContext):
    """A context whose connections are of another: the latest. A server that listens keeps this one."""

    latest: ssl.SSLContext
    on_failure: Failed | None = None

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """As `ssl.SSLContext` has it."""
        made = self.latest.wrap_bio(*arguments, **options)
        if isinstance(made, Handshake):
            made.on_failure, made._peer = self.on_failure, PEER.get()
        return made


class Certificates:
    """The files of TLS. Raises OSError, ParameterError for files that are none (`ssl.SSLError` of the system's own words).

    `chain` is the service's certificate and those that lead to its authority, `key` its private key (None: in the same file), `clients`
    authorities of clients' certificates, `crl` their revocation lists. `required`: clients must show a certificate.
    """

    def __init__(self, chain: Path, key: Path | None, clients: Path | None, crl: Path | None, *, required: bool) -> None:
        self._paths = chain, key, clients, crl
        self._required = required
        self.context = _Latest(ssl.PROTOCOL_TLS_SERVER)  #: of servers that listen, of HTTP and of gRPC
        self._contents: list[bytes | None] | None = None
        self.read()

    @property
    def on_failure(self) -> Failed | None:
        """Called for each handshake that fails: "certificate" or "protocol", OpenSSL's words, the client's address."""
        return self.context.on_failure

    @on_failure.setter
    def on_failure(self, heard: Failed) -> None:
        self.context.on_failure = heard

    def read(self) -> bool:
        """The files, again: whether one has changed. What cannot be read, or does not fit together, changes nothing and raises."""
        if self._contents is not None and any(path is not None and path.is_fifo() for path in self._paths):
            raise _core.ParameterError("a certificate that came through a pipe cannot be read again: give files, or restart")
        made, contents = self._made()
        if contents == self._contents:
            return False
        # A new context has new keys of session tickets: nobody resumes a session that another certificate, or none, began.
        self.context.latest, self._contents = made, contents
        return True

    def _made(self) -> tuple[ssl.SSLContext, list[bytes | None]]:
        chain, key, clients, crl = self._paths
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.sslobject_class = Handshake
        made.set_alpn_protocols(["http/1.1", "h2"])  # gRPC's clients offer h2 alone
        piped = chain.is_fifo() or (key is not None and key.is_fifo())  # which are read once
        with pem("certificate with its private key", chain, key):
            made.load_cert_chain(chain, key)
        if clients is not None:
            with pem("certificates of authorities", clients):
                made.load_verify_locations(clients)
            made.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
        if crl is not None:
            with pem("revocation lists", crl):
                made.load_verify_locations(crl)
            if not made.cert_store_stats()["crl"]:
                raise _core.ParameterError(f"{printable(str(crl))} holds no revocation lists (PEM)")
            made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        paths = (None if piped else chain, None if piped else key, clients, crl)
        return made, [None if path is None else path.read_bytes() for path in paths]

    def problem(self) -> str | None:
        """Why every client would refuse this certificate at this time, or None: a handshake in memory, in which it is trusted itself."""
        chain = self._paths[0]
        if chain.is_fifo():
            return None
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        trusting.load_verify_locations(chain)
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        client, server = trusting.wrap_bio(down, up), self.context.latest.wrap_bio(up, down, server_side=True)
        try:
            for side in (client, server, client):  # its hello, the certificate, what the client says to it
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLError as error:
            return getattr(error, "verify_message", None) or reason(error)
        return None
