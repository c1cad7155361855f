"""The client of a service: it holds the secret key, and sends only ciphertexts and evaluation keys."""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from heliograph import _core
from heliograph._common.arguments import described, is_real, path_of, printable
from heliograph._common.columns import require_spelling
from heliograph._common.html import Rows
from heliograph._common.schemes import split_type, type_of_bytes
from heliograph._common.service.errors import DeadlineError, ServiceError, UnknownJobError, UnreachableError, UploadError
from heliograph._common.service.kinds import GET, NEAREST, RUN, SESSION, SQL, JobKind
from heliograph._common.service.uploads import DIGEST, upload_kind
from heliograph._common.tensor import Progress, StageProgress, Tensor
from heliograph.client.async_calls import AsyncCalls
from heliograph.client.http_client import HttpClient, Reply, TensorBody, path
from heliograph.client.retry import CutError, Patience, Stage
from heliograph.keys import EvaluationKeys, SecretKey, from_bytes
from heliograph.knn import Neighbours, Scores, VectorClient, VectorLayout
from heliograph.models.bundle import ModelBundle
from heliograph.models.halves import Half, digest_of, half_of
from heliograph.pir import LookupClient, Question
from heliograph.sql import Answer, EncryptedTable

_CHUNK = 4 << 20
_WAIT = 20.0  # seconds of one long poll for an answer
_SPARE = 1.0  # seconds after a deadline in which the service may still report that the deadline passed
_LONGEST = 1e7  # seconds; limit of timeouts and deadlines
_LONGEST_PAGE = 1000  # entries of one page of a listing
_VERIFIED = (0.1, 0.25)  # shares of the client's timeout to wait for the verification of a complete upload

_CONTENTS = {"keys": "evaluation keys", "table": "an encrypted table"}


class Client:
    """A client of a service, and of one model that it serves.

    `address` has the form "https://host:8443". The client authenticates by `token`, or by `certificate` (a PEM file; `key`
    is its private key if that is in another file). `ca` is a PEM file of the CA certificates that verify the service (None:
    the system's). `model` is the model's name; `digest` pins it (`ModelBundle.digest`). `secret` is the key by which `run`
    encrypts and decrypts; `upload_keys` sets it too. `keys` is the digest of evaluation keys that were uploaded before.
    `timeout` is the limit of one call in seconds, retries included. Requires no other package than Heliograph. Thread-safe.

    Raises UnreachableError, CertificateError, AccessError, UnknownModelError; MismatchError if the model's digest is not
    `digest`; ParameterError for an invalid argument or certificate; SecurityError for a token without TLS to another
    machine; OSError for files.

    >>> _ = hg.nn.setup("digits").export("digits.hgm")
    >>> with hg.serving.local("digits.hgm") as address:  # a service on this machine, to try
    ...     client = hg.Client(address, model="digits")
    ...     secret = hg.SecretKey.generate(client.model.parameters)
    ...     digest = client.upload_keys(secret)  # once: the service stores them
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
        self.timeout = _seconds(timeout, "a timeout")
        if secret is not None and not isinstance(secret, SecretKey):
            raise _core.DtypeError(
                f"secret= must be a SecretKey, got {described(secret)}; SecretKey.load reads one from its file"
            )
        self._http = HttpClient(address, token, certificate, key, ca, self.timeout)
        self._model = None if model is None else self._fetch_half(model, digest)
        self._name, self._calls = model, AsyncCalls(self._cancel)
        self._secret, self._keys = secret, None if keys is None else _digest(keys)

    def _until(self) -> float:
        return time.monotonic() + self.timeout

    def _fetch_half(self, name: str, digest: str | None) -> Half:
        if not isinstance(name, str):
            raise _core.DtypeError(f"a model's name must be a string, got {described(name)}")
        half = half_of(self._http.ask("GET", path("models", name), until=self._until()).body)
        if digest is not None and digest_of(half) != digest:
            raise _core.MismatchError(
                f"the service's model {printable(name)} has the digest {digest_of(half)[:16]}..., not the pinned "
                f"{printable(str(digest))[:16]}...; ask its operator whether the model was replaced"
            )
        return half

    @property
    def model(self) -> ModelBundle:
        """The client's half of the model."""
        half = self.half
        if not isinstance(half, ModelBundle):
            how = (
                "client.get(key) looks up its rows"
                if isinstance(half, LookupClient)
                else "client.nearest(vector) searches it"
            )
            raise _core.ParameterError(f"{printable(str(self._name))} is a table, not a model bundle; {how}")
        return half

    @property
    def half(self) -> Half:
        """The client's half of the served model, table in clear or vectors."""
        if self._model is None:
            raise _core.ParameterError('this client has no model; name one: hg.Client(address, model="...")')
        return self._model

    @property
    def table(self) -> LookupClient:
        """The client's half of the table in clear."""
        if not isinstance(self._model, LookupClient):
            raise _core.ParameterError('this client has no look-up table; name one: hg.Client(address, model="phones")')
        return self._model

    @property
    def keys(self) -> str | None:
        """The digest of the evaluation keys that the service uses; None before they are uploaded."""
        return self._keys

    def models(self, *, limit: int | None = None, after: str = "") -> list[dict[str, Any]]:
        """Lists the served models by name: a dict each, with name, version, title, digest, and bytes of keys, requests and
        answers. The list has at most `limit` models, from the first name after `after` on.

        Raises UnreachableError, AccessError, ParameterError.

        Example: `hg.Client`.
        """
        return self._list("models", limit, after)

    def status(self) -> dict[str, Any]:
        """Returns models, queue, engines and store, as on the service's status page. Raises UnreachableError, AccessError.

        Example: `hg.Client`.
        """
        return self._http.ask("GET", path("status"), until=self._until()).json()

    # Uploads

    def upload_keys(self, source: Any, progress: Progress | None = None) -> str:
        """Uploads evaluation keys and returns their digest, which identifies them at the service. Bytes that the service
        already has are not sent again.

        `source` is a secret key, from which the model's evaluation keys are generated; evaluation keys; or the path of a
        file of them, whose upload resumes even in another process. `progress` is called with the share that has arrived.
        `timeout` applies to each piece. After the upload the service checks that the model can be run with the keys.

        Raises MissingKeyError, MismatchError for keys of another model; QuotaError, RateError, RevokedKeyError,
        DamagedFileError, UnreachableError, AccessError; FormatError for a file of a secret key or of another kind, before
        anything is sent; OSError.

        Example: `hg.Client`.
        """
        if isinstance(source, SecretKey):
            self._secret, source = source, self._keys_of(source)
        if isinstance(source, EvaluationKeys):
            if self._model is not None and not isinstance(self._model, LookupClient):
                self._model.require_keys(source)
            self._keys = self._upload(memoryview(source.to_bytes()), progress)
        else:
            with _opened(path_of(source), "keys") as data:
                self._keys = self._upload(data, progress)
        if self._model is not None:
            self._job(SESSION, None, (), self._keys, None, f"session-{secrets.token_hex(12)}", None)
        return self._keys

    def _keys_of(self, secret: Any) -> EvaluationKeys:
        half: Any = self.half
        made: EvaluationKeys = (
            VectorClient(half, secret).evaluation_keys() if isinstance(half, VectorLayout) else self.model.keys(secret)
        )
        return made

    def upload_table(self, source: Any, progress: Progress | None = None) -> str:
        """Uploads an encrypted table (`hg.sql`), or a file of one by its path, and returns its digest for `sql`.

        Raises the errors of `upload_keys`.

        Example: `hg.Client`.
        """
        if isinstance(source, EncryptedTable):
            return self._upload(memoryview(source.to_bytes()), progress)
        with _opened(path_of(source), "table") as data:
            return self._upload(data, progress)

    def _upload(self, data: memoryview | _File, progress: Progress | None) -> str:
        """Sends the data in pieces. `timeout` applies to each piece that arrives.

        After any failure the client queries the offset before it sends more: bytes of a dead connection may still arrive,
        and another client may upload the same content. Only one client writes; the others wait while it makes progress.
        """
        digest, total, most = _digest_of(data), data.nbytes, 0
        patience = self._http.patience(self.timeout)
        with _with_known_state(lambda: f"the service has at least {most:,} of {total:,} bytes; upload_keys resumes there"):
            offset, whole = self._upload_state(digest, total, patience)
            most = offset
            while not whole:
                before = offset
                try:
                    # Released in any case: a traceback would hold the view, and the file could not be closed.
                    with data[offset : offset + _CHUNK] as piece:
                        result = self._piece(digest, piece, offset, total, patience.until)
                    offset, whole = _offset(result.get("offset"), total), result.get("complete") is True
                    # Another request verifies the upload, or this piece was not accepted.
                    if not whole and (offset == total or offset <= before):
                        offset, whole = self._settled(digest, total, patience, True)
                except ServiceError as error:
                    # Another request writes, or the bytes arrived too slowly.
                    stopped = isinstance(error, (UploadError, DeadlineError))
                    if patience.is_over or not stopped:
                        self._http.again(patience, error)
                    offset, whole = self._settled(digest, total, patience, isinstance(error, UploadError))
                if offset > most or whole:
                    patience.anew(self.timeout)
                    most = max(offset, most)
                    if progress is not None:
                        progress(most / total)
        return digest

    def _upload_state(self, digest: str, total: int, patience: Patience) -> tuple[int, bool]:
        """Returns how many bytes of an upload the service has, and whether the upload is complete."""
        reply = self._http.ask("HEAD", path("blobs", digest), until=patience.until)
        return _count(reply, "Upload-Offset", total), reply.headers.get("Upload-Complete") == "?1"

    def _settled(self, digest: str, total: int, patience: Patience, shared: bool) -> tuple[int, bool]:
        """Returns the state of an upload (`_upload_state`). If other clients may write the same upload (`shared`), first
        waits until the offset no longer grows.

        If all bytes have arrived, waits for their verification: sending again would take the upload over and restart the
        verification.
        """
        before, (offset, whole) = -1, self._upload_state(digest, total, patience)
        end = time.monotonic() + random.uniform(*_VERIFIED) * self.timeout
        while not whole and ((shared and offset != before) or (offset == total and time.monotonic() < end)):
            patience.pause()
            before, (offset, whole) = offset, self._upload_state(digest, total, patience)
            if offset > before:
                patience.extend(self.timeout)
        return offset, whole

    def _piece(self, digest: str, piece: memoryview, offset: int, total: int, until: float | None = None) -> dict[str, Any]:
        """Sends one piece, without retries."""
        where, all_bytes = path("blobs", digest), str(total)
        return self._http.once("PUT", where, piece, until=until, Upload_Offset=str(offset), Upload_Length=all_bytes).json()

    def uploads(self, *, limit: int | None = None, after: str = "") -> list[dict[str, Any]]:
        """Lists this client's contents at the service by digest: a dict each, with digest, kind ("keys" or "table"), bytes,
        and the times added and used in seconds since 1970. The list has at most `limit` contents, from the first digest
        after `after` on.

        Raises UnreachableError, AccessError, ParameterError.

        Example: `hg.Client`.
        """
        return self._list("blobs", limit, after)

    def _list(self, what: str, limit: int | None, after: str) -> list[dict[str, Any]]:
        """Fetches a listing page by page."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise _core.ParameterError(f"limit must be a whole number above 0, got {described(limit)}")
        if not isinstance(after, str):
            raise _core.DtypeError(f"after must be a string, got {described(after)}")
        found, until = list[dict[str, Any]](), self._until()
        while True:
            left = _LONGEST_PAGE if limit is None else min(limit - len(found), _LONGEST_PAGE)
            listing = self._http.ask("GET", path(what, limit=left, after=after or None), until=until).json()
            page = listing.get(what, [])
            found += page
            following = listing.get("next")
            if len(found) == limit or not page or not isinstance(following, str) or following <= after:
                return found
            after = following

    def revoke(self, digest: str | None = None) -> None:
        """Revokes keys or a table permanently: the service deletes them and ends the jobs that use them. If the digest is
        None, revokes this client's keys.

        Raises UnknownKeyError, ForeignKeyError.

        Example: `hg.Client`.
        """
        chosen = self._keys if digest is None else digest
        if chosen is None:
            raise _core.ParameterError(
                "cannot revoke keys: this client has uploaded none; pass the digest of those to revoke"
            )
        self._http.ask("DELETE", path("blobs", _digest(chosen)), until=self._until())

    # Jobs

    def run(
        self, x: Any, *, progress: StageProgress | None = None, deadline: float | None = None, unchecked: bool = False
    ) -> Any:
        """Returns the model's answer to x. If x is an array: encrypts it, runs the model and decrypts the scores, as
        `ModelBundle.decrypt` returns them. If x is an encrypted tensor, or a list of encrypted tensors: returns an encrypted
        tensor.

        Clear values outside the model's input ranges are a PlaintextRangeError before anything is sent; ``unchecked=True``
        sends them anyway (`ModelBundle.encrypt`).

        `progress` is called with the present stage and its completed share. `deadline` is in seconds; the service ends the
        job when the deadline passes. A request without an answer is sent again, and its job is computed once. Keys that the
        service has deleted meanwhile are an error: this call does not upload keys.

        Raises BusyError, RateError, DeadlineError, UnknownKeyError, ForeignKeyError, RevokedKeyError, ExpiredKeyError,
        EvictedKeyError, UnreachableError, AccessError, CancelledError; as `ModelBundle.encrypt` and `decrypt`; DeviceError
        if the service's engine ended more than once during the job.

        Example: `hg.Client`.
        """
        return self._run(x, progress, deadline, unchecked, secrets.token_hex(16))

    async def arun(
        self, x: Any, *, progress: StageProgress | None = None, deadline: float | None = None, unchecked: bool = False
    ) -> Any:
        """Runs `run` for asyncio: cancelling the task cancels the job. `progress` is called on another thread.

        Raises the errors of `run`.

        Example: `hg.Client`.
        """
        id = secrets.token_hex(16)
        return await self._calls.run(id, self._run, x, progress, deadline, unchecked, id)

    def _run(self, x: Any, progress: StageProgress | None, deadline: float | None, unchecked: bool, id: str) -> Any:
        tensors = x if isinstance(x, (list, tuple)) and x and all(isinstance(t, Tensor) for t in x) else (x,)
        model, clear = self.model, not isinstance(tensors[0], Tensor)
        if clear:
            if self._secret is None:
                raise _core.MissingKeyError(
                    "cannot encrypt clear values: this client has no secret key; call upload_keys(secret), "
                    "or make it with hg.Client(..., secret=secret)"
                )
            made = model.encrypt(self._secret, x, unchecked=unchecked)
            tensors = made if isinstance(made, tuple) else (made,)
        if self._keys is None:
            raise _core.MissingKeyError(
                "the service has no evaluation keys of this client; "
                "call upload_keys, or make it with hg.Client(..., keys=digest)"
            )
        body = TensorBody(tensors)
        data = self._job(RUN, body, body.sizes, self._keys, progress, id, deadline)
        answer = from_bytes(data, Tensor)
        if not clear:
            return answer
        assert self._secret is not None
        return model.decrypt(self._secret, answer, like=x, unchecked=unchecked)

    def get(self, key: Any, *, deadline: float | None = None) -> Any:
        """Returns the row of a key in a table in clear, as `hg.pir.LookupClient.get` does; None if the table has no such
        key. The service does not learn the key. No evaluation keys are uploaded: each query contains its own.

        Raises the errors of `LookupClient.ask` and `run`.

        Example: `hg.Client`.
        """
        question = self.table.ask(key)
        return question.read(self._query(question, deadline, secrets.token_hex(16)))

    async def aget(self, key: Any, *, deadline: float | None = None) -> Any:
        """Runs `get` for asyncio: cancelling the task cancels the job. Raises the errors of `get`.

        Example: `hg.Client`.
        """
        question, id = self.table.ask(key), secrets.token_hex(16)
        return question.read(await self._calls.run(id, self._query, question, deadline, id))

    def _query(self, question: Question, deadline: float | None, id: str) -> bytes:
        body = question.to_bytes()
        return self._job(GET, body, (len(body),), None, None, id, deadline)

    def nearest(self, vector: Any, k: int = 10, *, deadline: float | None = None) -> Neighbours:
        """Returns ids and scores of the service's `k` vectors with the largest inner products with `vector`, int8
        [dimension]. The service learns neither the vector nor the scores. Call `upload_keys(secret)` once before, with a key
        of `half.parameters`.

        Raises the errors of `hg.knn.VectorClient` and `run`.

        Example: `hg.Client`.
        """
        half: Any = self.half
        if not isinstance(half, VectorLayout):
            raise _core.ParameterError('this client has no set of vectors; name one: hg.Client(address, model="faces")')
        if self._secret is None or self._keys is None:
            raise _core.MissingKeyError(
                "cannot encrypt a vector: this client has no secret key; call upload_keys(secret) first"
            )
        secret: Any = self._secret
        party = VectorClient(half, secret)
        body = party.encrypt(vector).to_bytes()
        data = self._job(NEAREST, body, (len(body),), self._keys, None, secrets.token_hex(16), deadline)
        return party.nearest(Scores.from_bytes(data), k)

    def sql(self, text: str, *, table: str, keys: str | None = None, deadline: float | None = None) -> Answer:
        """Returns the encrypted answer to a query on the uploaded table `table`, as `hg.sql.SqlServer.sql` does. `keys` is a
        digest (None: this client's keys).

        Raises SqlError, and the errors of `run`.

        Example: `hg.Client`.
        """
        if not isinstance(text, str):
            raise _core.DtypeError(f"a query must be a string, got {described(text)}")
        require_spelling(text, "a query")
        chosen = self._keys if keys is None else _digest(keys)
        if chosen is None:
            raise _core.MissingKeyError("the service has no evaluation keys of this client; call upload_keys first")
        body, table = text.encode(), _digest(table)
        return Answer.from_bytes(self._job(SQL, body, (), chosen, None, secrets.token_hex(16), deadline, table=table))

    def _cancel(self, id: str) -> bool:
        """Cancels a job. Returns whether the service knew the job."""
        try:
            self._http.ask("DELETE", path("jobs", id), until=time.monotonic() + min(self.timeout, 5.0))
        except _core.HeliographError:  # the job has ended, or has not arrived
            return False
        return True

    def _job(
        self,
        kind: JobKind,
        body: bytes | TensorBody | None,
        parts: tuple[int, ...],
        keys: str | None,
        progress: StageProgress | None,
        id: str,
        deadline: float | None,
        table: str | None = None,
    ) -> bytes:
        """Submits a job, retrying until the service has it, and waits for its answer."""
        seconds = self.timeout if deadline is None else min(_seconds(deadline, "a deadline"), self.timeout)
        until = time.monotonic() + seconds + (0.0 if deadline is None else 1.0)
        fields = {"id": id, "kind": kind.name, "keys": keys, "table": table, "seconds": seconds}
        fields |= {"model": None if kind.needs_table else self._name, "parts": ",".join(map(str, parts)) or None}
        wait = 0.0 if progress else min(_WAIT, self.timeout / 6)
        where = path("jobs", **fields, watch="1" if progress else "0", wait=wait)
        patience = self._http.patience(until - time.monotonic())
        try:
            reply = self._submit(id, where, body, wait, patience)
            while reply.status == 202:
                if time.monotonic() > until + _SPARE:
                    self._cancel(id)
                    raise DeadlineError(f"the job was not done within {seconds:g} s; give it a longer deadline or timeout")
                with _with_known_state(lambda: "the service has accepted the job"):
                    following = self._poll(id, reply, progress, until)
                if following is None:
                    patience.pause()  # behind a load balancer, another service may have the job
                    following = self._submit(id, where, body, wait, patience)
                reply = following
        except BaseException as error:
            if not isinstance(error, Exception) or not isinstance(error, _core.HeliographError):
                self._cancel(id)  # Ctrl-C, or an exception of `progress`
            raise
        return reply.body

    def _submit(self, id: str, where: str, body: bytes | TensorBody | None, wait: float, patience: Patience) -> Reply:
        """Submits a job until the service has it, and returns the first reply.

        If a connection was cut after the whole request was sent, first asks for the job's answer, because the service may
        have the job.
        """
        sent = False
        with _with_known_state(lambda: f"the service {'may have' if sent else 'does not have'} the job"):
            while True:
                if id in self._calls.cancelled:
                    raise _core.CancelledError("the call was cancelled before its job reached the service")
                try:
                    if sent:
                        with suppress(UnknownJobError):
                            answer = path("jobs", id, "answer", wait=wait)
                            return self._http.once("GET", answer, until=patience.until, wait=wait)
                        sent = False
                    return self._http.once("POST", where, body, until=patience.until, wait=wait)
                except ServiceError as error:
                    sent = isinstance(error, CutError) and (sent or error.stage >= Stage.WAITING)
                    self._http.again(patience, error)

    def _poll(self, id: str, reply: Reply, progress: StageProgress | None, until: float) -> Reply | None:
        """Polls a job at the service once. Returns None if the service no longer knows the job (it was restarted), so that
        the caller submits the job again.

        """
        try:
            if progress is None:
                # The service's report of a deadline precedes this client's.
                left = min(_WAIT, self.timeout / 6, until + _SPARE - time.monotonic())
                where = path("jobs", id, "answer", wait=max(left, 0.1))
                return self._http.ask("GET", where, until=until + 1.0, wait=left)
            state_fields = reply.json()
            if state_fields.get("state") == "running" and state_fields.get("stage"):
                share = state_fields.get("share")
                progress(printable(str(state_fields["stage"])), float(share) if isinstance(share, (int, float)) else 0.0)
            where = path("jobs", id, wait=1.0, seen=state_fields.get("version", 0))
            state = self._http.ask("GET", where, until=until, wait=1.0)
            if state.json().get("state") in ("done", "failed", "cancelled"):
                return self._http.ask("GET", path("jobs", id, "answer"), until=until)
            return Reply(202, state.headers, state.body)
        except UnknownJobError:
            return None

    def close(self) -> None:
        """Closes the connections; a further call opens new ones. A client is a context manager.

        Example: `hg.Client`.
        """
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Texts for people

    def _rows(self) -> Rows:
        half = self._model
        version = f" {half.version}" if isinstance(half, ModelBundle) else ""
        known = "none" if half is None else f"{printable(str(self._name))}{version}, {digest_of(half)[:16]}"
        return [
            ("service", repr(self._http)),
            ("model", known),
            ("keys", "none there" if self._keys is None else self._keys[:16]),
        ]

    def __repr__(self) -> str:
        return f"<client of {self._http!r}: model {dict(self._rows())['model']}>"


@contextmanager
def _with_known_state(what: Callable[[], str]) -> Iterator[None]:
    """Appends the known state of the service to an UnreachableError."""
    try:
        yield
    except UnreachableError as error:
        if type(error) is not UnreachableError:
            raise
        raise UnreachableError(f"{error}; {what()}") from None


class _File:
    """A file read in slices, so that memory holds only the slice being sent. Raises DamagedFileError if the file was
    truncated meanwhile.
    """

    def __init__(self, name: str) -> None:
        self._name, self._descriptor = printable(name), os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._descriptor)
        self.nbytes = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise _core.DamagedFileError(f"cannot upload {self._name}: it is not a regular file")

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(self.nbytes)
        data = os.pread(self._descriptor, stop - start, start)
        if len(data) != stop - start:
            raise _core.DamagedFileError(f"cannot upload {self._name}: it was truncated while it was read; upload it again")
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
def _opened(name: str, kind: str) -> Iterator[_File]:
    with _File(name) as file:
        if not file.nbytes:
            raise _core.DamagedFileError(f"cannot upload {printable(name)}: it is empty")
        _require_kind(file, printable(name), kind)
        yield file


def _require_kind(file: _File, name: str, kind: str) -> None:
    """Checks a file's kind before any byte is sent. Raises an error for a secret key."""
    head = bytes(file[: _core.container.header_end(bytes(file[: _core.container.PREFIX_BYTES]), file.nbytes)])
    scheme = split_type(type_of_bytes(head) or "")
    if scheme and "secret" in scheme[1]:
        raise _core.FormatError(
            f"{name} is a SECRET key, which no service may have: nothing of it was sent; upload its evaluation keys"
        )
    found = upload_kind(head)
    if found != kind:
        other = "upload_table" if found == "table" else "upload_keys"
        raise _core.FormatError(f"{name} must hold {_CONTENTS[kind]}, got {_CONTENTS[found]}; {other} uploads it")


def _seconds(value: Any, what: str) -> float:
    if not is_real(value) or not 0 < value <= _LONGEST:
        raise _core.ParameterError(
            f"{what} must be a number of seconds above 0 and up to {_LONGEST:,.0f}, got {described(value)}"
        )
    return float(value)


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise _core.ParameterError(
            f"a digest of keys or of a table must be a SHA-256, 64 hexadecimal digits, got {described(value)}"
        )
    return value


def _count(reply: Reply, name: str, most: int) -> int:
    """Parses a header that counts bytes."""
    found = reply.headers.get(name, "")
    return _offset(int(found) if found.isascii() and found.isdigit() and len(found) < 20 else None, most)


def _offset(value: Any, most: int) -> int:
    """Checks a byte count of the service. Raises ServiceError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ServiceError(
            f"the answer is not from a Heliograph service: an offset must be from 0 to {most:,}, got {described(value)}; "
            "check the address"
        )
    return value
