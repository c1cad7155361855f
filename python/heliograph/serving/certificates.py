"""TLS contexts whose files may change while the service runs: each handshake uses the certificate, CA certificates and
revocation lists that were read last.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.service.tls import pem, reason
from heliograph.serving.connections import PEER

_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
Failed = Callable[[str, str, str | None], None]


class Handshake(ssl.SSLObject):
    """A TLS handshake that sends the alert for a refused client certificate. asyncio would close the connection before the
    alert is sent.

    The error is suppressed until the client closes the connection or asyncio's handshake timeout passes.
    """

    on_failure: Failed | None = None
    _failed = False
    _peer: str | None = None

    def do_handshake(self) -> None:
        """Overrides `ssl.SSLObject.do_handshake`."""
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
    """A context that creates its connections from the context `latest`. A listener keeps this object across reloads."""

    latest: ssl.SSLContext
    on_failure: Failed | None = None

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Overrides `ssl.SSLContext.wrap_bio`."""
        made = self.latest.wrap_bio(*arguments, **options)
        if isinstance(made, Handshake):
            made.on_failure, made._peer = self.on_failure, PEER.get()
        return made


class Certificates:
    """The service's TLS files. Raises OSError; ParameterError for a file with other contents.

    `chain` is the service's certificate with its intermediate certificates, `key` its private key (None: in the same file).
    `clients` holds the CA certificates that verify client certificates, `crl` their revocation lists. `required`: clients
    must present a certificate.
    """

    def __init__(self, chain: Path, key: Path | None, clients: Path | None, crl: Path | None, *, required: bool) -> None:
        self._paths = chain, key, clients, crl
        self._required = required
        self.context = _Latest(ssl.PROTOCOL_TLS_SERVER)  #: shared by the HTTP and gRPC listeners
        self._contents: list[bytes | None] | None = None
        self.read()

    @property
    def on_failure(self) -> Failed | None:
        """Callback for failed handshakes: "certificate" or "protocol", OpenSSL's reason, the client's address."""
        return self.context.on_failure

    @on_failure.setter
    def on_failure(self, callback: Failed) -> None:
        self.context.on_failure = callback

    def read(self) -> bool:
        """Reads the files again and returns whether one has changed. If a file is invalid or does not fit the other files,
        raises an error and changes nothing.
        """
        if self._contents is not None and any(path is not None and path.is_fifo() for path in self._paths):
            raise _core.ParameterError(
                "cannot read a certificate again: it was given as a pipe, which is read once; "
                "give a file, or restart the service"
            )
        made, contents = self._made()
        if contents == self._contents:
            return False
        # A new context has new session ticket keys, so no session that was verified by the old files can resume.
        self.context.latest, self._contents = made, contents
        return True

    def _made(self) -> tuple[ssl.SSLContext, list[bytes | None]]:
        chain, key, clients, crl = self._paths
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.sslobject_class = Handshake
        made.set_alpn_protocols(["http/1.1", "h2"])  # gRPC clients offer only h2
        piped = chain.is_fifo() or (key is not None and key.is_fifo())  # a pipe can be read only once
        with pem("certificate with its private key", chain, key):
            made.load_cert_chain(chain, key)
        if clients is not None:
            with pem("CA certificates", clients):
                made.load_verify_locations(clients)
            made.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
        if crl is not None:
            with pem("revocation lists", crl):
                made.load_verify_locations(crl)
            if not made.cert_store_stats()["crl"]:
                raise _core.ParameterError(
                    f"{printable(str(crl))} holds no revocation lists (PEM); give one of each authority of clients"
                )
            made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        paths = (None if piped else chain, None if piped else key, clients, crl)
        return made, [None if path is None else path.read_bytes() for path in paths]

    def problem(self) -> str | None:
        """Returns why every client would refuse the service's certificate now, or None if clients would accept it. Performs
        a handshake in memory with a client that trusts only this certificate.

        """
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
            for side in (client, server, client):  # client hello, server certificate, client's verification
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLError as error:
            return getattr(error, "verify_message", None) or reason(error)
        return None
