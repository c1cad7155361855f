"""The client of a service: it has the secret key, and sends what cannot be read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from heliograph import _core
from heliograph._arrays import described, is_real, path_of, printable
from heliograph._html import Rows
from heliograph._shapes import Tensor
from heliograph.keys import EvaluationKeys, SecretKey, from_bytes
from heliograph.query import Answer, EncryptedTable
from heliograph.sealed import SealedModel
from heliograph.serving.errors import (
    ServiceError,
    UnknownJobError,
    UploadError,
)
from heliograph.serving.wire import Line, Reply, Written, path

_CHUNK = 4 << 20
_WAIT = 20.0  # seconds that one question waits for an answer
_MOST_TURNS = 8  # uploads begun anew, because somebody else went on with one

Progress = Callable[[float], None]


class Client:
    """A client of a service that runs sealed models, and of one model there.

        `address` is as in "https://host:8443". The service knows its clients by a `token`, or by a `certificate` (a PEM
        file, with `key`
        where the private key is in another); `ca` is a PEM file of the authorities that its own certificate is checked by,
        None: the
        system's. `model` is the model's name; with `digest` it must be that very model (`SealedModel.digest`). `secret` is
        the key
        that `run` encrypts and decrypts by; `upload_keys` sets it too. `timeout` is how many seconds a call may take in all,
        repeated
    tries included. Needs nothing but this package. Several threads may use one client.

        Raises UnreachableError, AccessError, UnknownModelError; MismatchError for another model than `digest` says;
        ParameterError,
    SecurityError for a token without TLS beyond this machine; OSError for files.

    >>> _ = hg.nn.setup("digits").seal("digits.hgm")
    >>> with hg.serving.local("digits.hgm") as address:  # a service of your own, on this machine, to try
    ...     client = hg.Client(address, model="digits")
    ...     secret = hg.SecretKey.generate(client.model.parameters)
    ...     digest = client.upload_keys(secret)  # once: the service keeps them
    ...     digit = np.random.default_rng(1).integers(0, 17, (8, 8))
    ...     scores = client.run(digit)  # encrypted here, computed there, decrypted here
    ...     client.revoke(digest)
    >>> np.array_equal(scores, hg.nn.load("digits").clear_logits([digit])[0])
    True
    """

    def __init__(
        self,
        address: str,
        *,
        model: str | None = None,
        token: str | None = None,
        certificate: Any = None,
        key: Any = None,
        ca: Any = None,
        digest: str | None = None,
        secret: SecretKey[Any, Any] | None = None,
        keys: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if not is_real(timeout) or not timeout > 0:
            raise _core.ParameterError(f"a timeout is a number of seconds above 0, not {described(timeout)}")
        self.timeout = float(timeout)
        self._line = Line(address, token, certificate, key, ca, self.timeout)
        self._model = None if model is None else self._fetched(model, digest)
        self._name = model
        self._secret, self._keys = secret, keys

    def _until(self) -> float:
        return time.monotonic() + self.timeout

    def _fetched(self, name: str, digest: str | None) -> SealedModel:
        if not isinstance(name, str):
            raise _core.DtypeError(f"a model is named by a text, not by {described(name)}")
        half = SealedModel.load(self._line.ask("GET", path("models", name), until=self._until()).body)
        if digest is not None and half.digest != digest:
            raise _core.MismatchError(
                f"the service's model {printable(name)} has the digest {half.digest[:16]}..., not {printable(str(digest))[:16]}..."
            )
        return half

    @property
    def model(self) -> SealedModel:
        """The client's half of the model."""
        if self._model is None:
            raise _core.ParameterError('this client was made without a model: hg.Client(address, model="...")')
        return self._model

    @property
    def keys(self) -> str | None:
        """The digest of the evaluation keys that the service computes with; None before they are uploaded."""
        return self._keys

    def models(self) -> list[dict[str, Any]]:
        """As `hg.Client` shows.

        What the service has: a dict for each model, with name, version, title, digest, and bytes of keys, requests and
        answers.

        Raises UnreachableError, AccessError.
        """
        found: list[dict[str, Any]] = self._line.ask("GET", path("models"), until=self._until()).json().get("models", [])
        return found

    def status(self) -> dict[str, Any]:
        """As `hg.Client` shows.

        Models, queue, engines and store, as the service's status page has them. Raises UnreachableError, AccessError.
        """
        return self._line.ask("GET", path("status"), until=self._until()).json()

    # Uploads

    def upload_keys(self, source: Any, progress: Progress | None = None) -> str:
        """As `hg.Client` shows.

        Sends evaluation keys, once; their digest, by which the service knows them. What it has of them already is not sent.

        `source` is a secret key, of which the keys that the model needs are made; evaluation keys; or the path of a file of
        them, which goes on where it stopped also in another process. `progress` is called with the share that is there. The
        service is asked whether the model can be run by them.

        Raises MissingKeyError, MismatchError for keys of another model; QuotaError, RateError, RevokedKeyError,
        DamagedFileError, UnreachableError, AccessError; OSError.
        """
        if isinstance(source, SecretKey):
            self._secret, source = source, self.model.keys(source)
        if isinstance(source, EvaluationKeys):
            if self._model is not None:
                self._model.require_keys(source)
            self._keys = self._upload(memoryview(source.to_bytes()), progress)
        else:
            with _opened(path_of(source)) as data:
                self._keys = self._upload(data, progress)
        if self._model is not None:
            self._job("session", None, (), self._keys, None, f"session-{secrets.token_hex(12)}", None)
        return self._keys

    def upload_table(self, source: Any, progress: Progress | None = None) -> str:
        """As `hg.Client` shows.

        Sends an encrypted table (`hg.query`), or the path of its file, once; its digest, which `sql` takes.

        Raises as `upload_keys`.
        """
        if isinstance(source, EncryptedTable):
            return self._upload(memoryview(source.to_bytes()), progress)
        with _opened(path_of(source)) as data:
            return self._upload(data, progress)

    def _upload(self, data: memoryview | _File, progress: Progress | None) -> str:
        """In pieces, each sent until it is there; `timeout` is for each."""
        digest, total = _digest_of(data), data.nbytes
        for _ in range(_MOST_TURNS):
            told = self._line.ask("HEAD", path("blobs", digest), until=self._until())
            offset, whole = _count(told, "Upload-Offset"), told.headers.get("Upload-Complete") == "?1"
            try:
                while not whole:
                    piece = data[offset : offset + _CHUNK]
                    said = self._piece(digest, piece, offset, total)
                    offset, whole = int(said.get("offset", 0)), bool(said.get("complete"))
                    if progress is not None:
                        progress(offset / total)
            except UploadError:  # somebody else went on with it, or a piece was there that we thought lost
                continue
            return digest
        raise UploadError("others upload the same at the same time")

    def _piece(self, digest: str, piece: memoryview, offset: int, total: int) -> dict[str, Any]:
        headers = {"Upload_Offset": str(offset), "Upload_Length": str(total)}
        return self._line.ask("PUT", path("blobs", digest), piece, until=self._until(), **headers).json()

    def uploads(self) -> list[dict[str, Any]]:
        """As `hg.Client` shows.

        What the service keeps of this client: a dict for each, with digest, kind ("keys" or "table"), bytes, and when it was
        added and used, in seconds since 1970.
        """
        found: list[dict[str, Any]] = self._line.ask("GET", path("blobs"), until=self._until()).json().get("blobs", [])
        return found

    def revoke(self, digest: str | None = None) -> None:
        """As `hg.Client` shows.

        Takes keys or a table back, for good: the service removes them, and jobs that use them end. None: this client's keys.

        Raises UnknownKeyError, ForeignKeyError.
        """
        chosen = digest or self._keys
        if not isinstance(chosen, str):
            raise _core.ParameterError("there are no keys to take back: none were uploaded by this client")
        self._line.ask("DELETE", path("blobs", chosen), until=self._until())

    # Jobs

    def run(self, x: Any, *, progress: Callable[[str, float], None] | None = None, deadline: float | None = None) -> Any:
        """As `hg.Client` shows.

        The model's answer to x. An array is encrypted here, and the answer decrypted: scores, as `SealedModel.decrypt` gives
        them. An encrypted tensor (or several) gives an encrypted answer.

        `progress` is called with what is computed, and the share of it. `deadline` is in how many seconds the service must
        be done; it frees its device then. A try that got no answer is repeated, and computed once; keys that the service let
        go meanwhile are errors, for they are not this call's to send.

        Raises BusyError, RateError, DeadlineError, UnknownKeyError, ForeignKeyError, RevokedKeyError, ExpiredKeyError,
        EvictedKeyError, UnreachableError, AccessError, CancelledError; as `SealedModel.encrypt` and `decrypt`; DeviceError
        where the service's engine ended at it more than once.
        """
        return self._run(x, progress, deadline, secrets.token_hex(16))

    async def arun(
        self, x: Any, *, progress: Callable[[str, float], None] | None = None, deadline: float | None = None
    ) -> Any:
        """As `hg.Client` shows.

        `run` for asyncio: a task that is cancelled cancels the job. `progress` is called on another thread.

        Raises as `run`.
        """
        id = secrets.token_hex(16)
        work = asyncio.create_task(asyncio.to_thread(self._run, x, progress, deadline, id))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.to_thread(self._cancel, id)
            work.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    def _run(self, x: Any, progress: Callable[[str, float], None] | None, deadline: float | None, id: str) -> Any:
        tensors = x if isinstance(x, (list, tuple)) and x and all(isinstance(t, Tensor) for t in x) else (x,)
        clear = not isinstance(tensors[0], Tensor)
        if clear:
            if self._secret is None:
                raise _core.MissingKeyError(
                    "clear values are encrypted by a secret key: upload_keys(secret), or hg.Client(..., secret=secret)"
                )
            made = self.model.encrypt(self._secret, x)
            tensors = made if isinstance(made, tuple) else (made,)
        if self._keys is None:
            raise _core.MissingKeyError(
                "the service has no keys to compute with: upload_keys first, or hg.Client(..., keys=digest)"
            )
        body = Written(tensors)
        data = self._job("run", body, body.sizes, self._keys, progress, id, deadline)
        answer = from_bytes(data, Tensor)
        if not clear:
            return answer
        assert self._secret is not None
        return self.model.decrypt(self._secret, answer, like=x)

    def sql(self, text: str, *, table: str, keys: str | None = None, deadline: float | None = None) -> Answer:
        """As `hg.Client` shows.

        The encrypted answer to a query on an uploaded table, as `hg.query.SqlServer.sql` gives it; `keys`: None: this
        client's.

        Raises SqlError, and as `run`.
        """
        if not isinstance(text, str):
            raise _core.DtypeError(f"a query is a text, not {described(text)}")
        chosen = keys or self._keys
        if chosen is None:
            raise _core.MissingKeyError("the service has no keys to compute with: upload_keys first")
        body = text.encode()
        return Answer.from_bytes(self._job("sql", body, (), chosen, None, secrets.token_hex(16), deadline, table=table))

    def _cancel(self, id: str) -> None:
        with suppress(_core.HeliographError):  # it had ended, or never came there
            self._line.ask("DELETE", path("jobs", id), until=time.monotonic() + min(self.timeout, 5.0))

    def _job(
        self,
        kind: str,
        body: bytes | Written | None,
        parts: tuple[int, ...],
        keys: str,
        progress: Callable[[str, float], None] | None,
        id: str,
        deadline: float | None,
        table: str | None = None,
    ) -> bytes:
        """Sends a job until it is known there, and waits for its answer."""
        until = time.monotonic() + (self.timeout if deadline is None else min(deadline, self.timeout) + 1.0)
        told = {
            "id": id,
            "kind": kind,
            "keys": keys,
            "table": table,
            "seconds": self.timeout if deadline is None else deadline,
        }
        told |= {"model": self._name if kind != "sql" else None, "parts": ",".join(map(str, parts)) or None}
        wait = 0 if progress else min(_WAIT, self.timeout)
        where = path("jobs", **told, watch="1" if progress else "0", wait=wait)
        try:
            reply = self._line.ask("POST", where, body, until=until)
            while reply.status == 202:
                reply = self._waited(id, reply, progress, until) or self._line.ask("POST", where, body, until=until)
        except BaseException as error:
            if not isinstance(error, Exception) or not isinstance(error, _core.HeliographError):
                self._cancel(id)  # Ctrl-C, or what `progress` raised: nobody waits any more
            raise
        return reply.body

    def _waited(self, id: str, reply: Reply, progress: Callable[[str, float], None] | None, until: float) -> Reply | None:
        """One more question after a job; None where the service forgot it (it was started anew), so that it is to be sent
        again."""
        try:
            if progress is None:
                left = max(min(_WAIT, until - time.monotonic()), 0.0)
                return self._line.ask("GET", path("jobs", id, "answer", wait=left), until=until + 1.0)
            said = reply.json()
            if said.get("state") == "running" and said.get("stage"):
                progress(printable(str(said["stage"])), float(said.get("share", 0.0)))
            state = self._line.ask("GET", path("jobs", id, wait=1.0, seen=said.get("version", 0)), until=until)
            if state.json().get("state") in ("done", "failed", "cancelled"):
                return self._line.ask("GET", path("jobs", id, "answer"), until=until)
            return Reply(202, state.headers, state.body)
        except UnknownJobError:
            return None

    def close(self) -> None:
        """As `hg.Client` shows.

        Closes its connections; another call opens new ones. A client is a context manager besides.
        """
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For people

    def _rows(self) -> Rows:
        known = "none" if self._model is None else f"{self._model.name} {self._model.version}, {self._model.digest[:16]}"
        return [
            ("service", repr(self._line)),
            ("model", known),
            ("keys", "none there" if self._keys is None else self._keys[:16]),
        ]

    def __repr__(self) -> str:
        return f"<client of {self._line!r}: model {dict(self._rows())['model']}>"


class _File:
    """A file's bytes, of which memory holds what is being sent. Slices are read; DamagedFileError where it became shorter."""

    def __init__(self, name: str) -> None:
        self._name, self._descriptor = printable(name), os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        self.nbytes = os.fstat(self._descriptor).st_size

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(self.nbytes)
        data = os.pread(self._descriptor, stop - start, start)
        if len(data) != stop - start:
            raise _core.DamagedFileError(f"{self._name} was cut short while it was read")
        return memoryview(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _digest_of(data: memoryview | _File) -> str:
    sha = hashlib.sha256()
    for start in range(0, data.nbytes, _CHUNK):
        sha.update(data[start : start + _CHUNK])
    return sha.hexdigest()


@contextmanager
def _opened(name: str) -> Iterator[_File]:
    with _File(name) as file:
        if not file.nbytes:
            raise _core.DamagedFileError(f"{printable(name)} is empty")
        yield file


def _count(reply: Reply, name: str) -> int:
    found = reply.headers.get(name, "")
    if not found.isdigit():
        raise ServiceError("what answered is no service of Heliograph")
    return int(found)
