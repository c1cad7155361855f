"""The client of a service: it has the secret key, and sends what cannot be read."""

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

from heliograph import _container, _core
from heliograph._arrays import described, is_real, path_of, printable
from heliograph._html import Rows
from heliograph._schemes import split_type, type_of_bytes
from heliograph._shapes import Tensor
from heliograph.keys import EvaluationKeys, SecretKey, from_bytes
from heliograph.query import (
    Answer,
    EncryptedTable,
    LookupClient,
    Neighbours,
    Question,
    Scores,
    VectorClient,
    VectorLayout,
)
from heliograph.query.columns import require_written
from heliograph.sealed import SealedModel
from heliograph.serving.asking import Calls
from heliograph.serving.errors import (
    DeadlineError,
    ServiceError,
    UnknownJobError,
    UnreachableError,
    UploadError,
)
from heliograph.serving.records import DIGEST
from heliograph.serving.retrying import CutError, Patience, Stage
from heliograph.serving.store import kind_of
from heliograph.serving.tables import Half, digest_of, half_of
from heliograph.serving.wire import Line, Reply, Written, path

_CHUNK = 4 << 20
_WAIT = 20.0  # seconds that one question waits for an answer
_SPARE = 1.0  # seconds in which a service may say that a deadline has passed
_LONGEST = 1e7  # seconds that a call may take
_LONGEST_PAGE = 1000  # entries of a listing that a service gives at once
_VERIFIED = (0.1, 0.25)  # of a client's timeout, for the verification of an upload that has all its bytes

Progress = Callable[[float], None]


class Client:
    """A client of a service that runs sealed models, and of one model there.

    `address` is as in "https://host:8443". The service knows its clients by a `token`, or by a `certificate` (a PEM file,
    with `key` where the private key is in another); `ca` is a PEM file of the authorities that its own certificate is
    checked by, None: the system's. `model` is the model's name; with `digest` it must be that very model
    (`SealedModel.digest`). `secret` is the key that `run` encrypts and decrypts by; `upload_keys` sets it too. `timeout` is
    how many seconds a call may take in all, repeated tries included. Needs nothing but this package. Several threads may use
    one client.

    Raises UnreachableError, CertificateError, AccessError, UnknownModelError; MismatchError for another model than `digest` says;
    ParameterError, also for certificates that are none; SecurityError for a token without TLS beyond this machine; OSError
    for files.

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
        self.timeout = _seconds(timeout, "a timeout")
        if secret is not None and not isinstance(secret, SecretKey):
            raise _core.DtypeError(
                f"secret= is a SecretKey, not {described(secret)}; SecretKey.load reads one from its file"
            )
        self._line = Line(address, token, certificate, key, ca, self.timeout)
        self._model = None if model is None else self._fetched(model, digest)
        self._name, self._calls = model, Calls(self._cancel)
        self._secret, self._keys = secret, None if keys is None else _digest(keys)

    def _until(self) -> float:
        return time.monotonic() + self.timeout

    def _fetched(self, name: str, digest: str | None) -> Half:
        if not isinstance(name, str):
            raise _core.DtypeError(f"a model is named by a text, not by {described(name)}")
        half = half_of(self._line.ask("GET", path("models", name), until=self._until()).body)
        if digest is not None and digest_of(half) != digest:
            raise _core.MismatchError(
                f"the service's model {printable(name)} has the digest {digest_of(half)[:16]}..., not {printable(str(digest))[:16]}..."
            )
        return half

    @property
    def model(self) -> SealedModel:
        """The client's half of the model."""
        half = self.half
        if not isinstance(half, SealedModel):
            how = (
                "client.get(key) asks for its rows"
                if isinstance(half, LookupClient)
                else "client.nearest(vector) searches it"
            )
            raise _core.ParameterError(f"{printable(str(self._name))} is a table: {how}")
        return half

    @property
    def half(self) -> Half:
        """The client's half of what it is a client of: a model, a table in clear, or the layout of vectors."""
        if self._model is None:
            raise _core.ParameterError('this client was made without a model: hg.Client(address, model="...")')
        return self._model

    @property
    def table(self) -> LookupClient:
        """The client's half of the table in clear that this client looks rows up in."""
        if not isinstance(self._model, LookupClient):
            raise _core.ParameterError('this client is of no table for look-ups: hg.Client(address, model="phones")')
        return self._model

    @property
    def keys(self) -> str | None:
        """The digest of the evaluation keys that the service computes with; None before they are uploaded."""
        return self._keys

    def models(self, *, limit: int | None = None, after: str = "") -> list[dict[str, Any]]:
        """As `hg.Client` shows.

        What the service has: a dict for each model, with name, version, title, digest, and bytes of keys, requests and
        answers. They come by name: `limit` of them at most, and those after the name `after`.

        Raises UnreachableError, AccessError, ParameterError.
        """
        return self._listed("models", limit, after)

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
        client's `timeout` is for each piece. The service is asked whether the model can be run by them.

        Raises MissingKeyError, MismatchError for keys of another model; QuotaError, RateError, RevokedKeyError,
        DamagedFileError, UnreachableError, AccessError; FormatError for a secret key and other files, before anything is
        sent; OSError.
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
            self._job("session", None, (), self._keys, None, f"session-{secrets.token_hex(12)}", None)
        return self._keys

    def _keys_of(self, secret: Any) -> EvaluationKeys:
        half: Any = self.half
        made: EvaluationKeys = (
            VectorClient(half, secret).evaluation_keys() if isinstance(half, VectorLayout) else self.model.keys(secret)
        )
        return made

    def upload_table(self, source: Any, progress: Progress | None = None) -> str:
        """As `hg.Client` shows.

        Sends an encrypted table (`hg.query`), or the path of its file, once; its digest, which `sql` takes.

        Raises as `upload_keys`.
        """
        if isinstance(source, EncryptedTable):
            return self._upload(memoryview(source.to_bytes()), progress)
        with _opened(path_of(source), "table") as data:
            return self._upload(data, progress)

    def _upload(self, data: memoryview | _File, progress: Progress | None) -> str:
        """In pieces, each sent until it is there: `timeout` is for every step on.

        Whatever goes wrong, the service is asked how much is there before more is sent: bytes of a connection that died may still
        come, and another client may send the same. Only one of them writes; the others wait for as long as it gets on.
        """
        digest, total, most = _digest_of(data), data.nbytes, 0
        patience = self._line.patience(self.timeout)
        with _known(lambda: f"at least {most:,} of {total:,} bytes are there, and upload_keys goes on with them"):
            offset, whole = self._there(digest, total, patience)
            most = offset
            while not whole:
                before = offset
                try:
                    # Released whatever comes: an error's traceback would hold it, and the file below could not be closed.
                    with data[offset : offset + _CHUNK] as piece:
                        said = self._piece(digest, piece, offset, total, patience.until)
                    offset, whole = _offset(said.get("offset"), total), said.get("complete") is True
                    if not whole and (
                        offset == total or offset <= before
                    ):  # another request verifies it, or nothing came of this one
                        offset, whole = self._settled(digest, total, patience, True)
                except ServiceError as error:
                    stopped = isinstance(
                        error, (UploadError, DeadlineError)
                    )  # by another writer, or as bytes came too slowly
                    if patience.is_over or not stopped:
                        self._line.again(patience, error)
                    offset, whole = self._settled(digest, total, patience, isinstance(error, UploadError))
                if offset > most or whole:
                    patience.anew(self.timeout)
                    most = max(offset, most)
                    if progress is not None:
                        progress(most / total)
        return digest

    def _there(self, digest: str, total: int, patience: Patience) -> tuple[int, bool]:
        """How many bytes of an upload the service has, and whether that is all."""
        told = self._line.ask("HEAD", path("blobs", digest), until=patience.until)
        return _count(told, "Upload-Offset", total), told.headers.get("Upload-Complete") == "?1"

    def _settled(self, digest: str, total: int, patience: Patience, shared: bool) -> tuple[int, bool]:
        """As `_there`, once that stands still where others may be writing (`shared`). If all bytes are there, their verification has
        some time: who sends on takes it over, and begins it anew.
        """
        before, (offset, whole) = -1, self._there(digest, total, patience)
        end = time.monotonic() + random.uniform(*_VERIFIED) * self.timeout
        while not whole and ((shared and offset != before) or (offset == total and time.monotonic() < end)):
            patience.pause()
            before, (offset, whole) = offset, self._there(digest, total, patience)
            if offset > before:
                patience.extend(self.timeout)
        return offset, whole

    def _piece(self, digest: str, piece: memoryview, offset: int, total: int, until: float | None = None) -> dict[str, Any]:
        """Sends a piece, once."""
        where, all_bytes = path("blobs", digest), str(total)
        return self._line.once("PUT", where, piece, until=until, Upload_Offset=str(offset), Upload_Length=all_bytes).json()

    def uploads(self, *, limit: int | None = None, after: str = "") -> list[dict[str, Any]]:
        """As `hg.Client` shows.

        What the service keeps of this client: a dict for each, with digest, kind ("keys" or "table"), bytes, and when it was
        added and used, in seconds since 1970. They come by digest: `limit` of them at most, and those after the digest `after`.

        Raises UnreachableError, AccessError, ParameterError.
        """
        return self._listed("blobs", limit, after)

    def _listed(self, what: str, limit: int | None, after: str) -> list[dict[str, Any]]:
        """A listing, page by page."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise _core.ParameterError(f"limit must be a whole number above 0, got {described(limit)}")
        if not isinstance(after, str):
            raise _core.DtypeError(f"after must be a text, got {described(after)}")
        found, until = list[dict[str, Any]](), self._until()
        while True:
            left = _LONGEST_PAGE if limit is None else min(limit - len(found), _LONGEST_PAGE)
            said = self._line.ask("GET", path(what, limit=left, after=after or None), until=until).json()
            page = said.get(what, [])
            found += page
            following = said.get("next")
            if len(found) == limit or not page or not isinstance(following, str) or following <= after:
                return found
            after = following

    def revoke(self, digest: str | None = None) -> None:
        """As `hg.Client` shows.

        Takes keys or a table back, for good: the service removes them, and jobs that use them end. None: this client's keys.

        Raises UnknownKeyError, ForeignKeyError.
        """
        chosen = self._keys if digest is None else digest
        if chosen is None:
            raise _core.ParameterError("there are no keys to take back: none were uploaded by this client")
        self._line.ask("DELETE", path("blobs", _digest(chosen)), until=self._until())

    # Jobs

    def run(
        self,
        x: Any,
        *,
        progress: Callable[[str, float], None] | None = None,
        deadline: float | None = None,
        unchecked: bool = False,
    ) -> Any:
        """As `hg.Client` shows.

        The model's answer to x. An array is encrypted here, and the answer decrypted: scores, as `SealedModel.decrypt` gives
        them. An encrypted tensor (or several) gives an encrypted answer.

        Clear values outside the model's input ranges are a PlaintextRangeError, and nothing is sent; ``unchecked=True`` sends them
        all the same (`SealedModel.encrypt`).

        `progress` is called with what is computed, and the share of it. `deadline` is in how many seconds the service must
        be done; it frees its device then. A try that got no answer is repeated, and computed once; keys that the service let
        go meanwhile are errors, for they are not this call's to send.

        Raises BusyError, RateError, DeadlineError, UnknownKeyError, ForeignKeyError, RevokedKeyError, ExpiredKeyError,
        EvictedKeyError, UnreachableError, AccessError, CancelledError; as `SealedModel.encrypt` and `decrypt`; DeviceError
        where the service's engine ended at it more than once.
        """
        return self._run(x, progress, deadline, unchecked, secrets.token_hex(16))

    async def arun(
        self,
        x: Any,
        *,
        progress: Callable[[str, float], None] | None = None,
        deadline: float | None = None,
        unchecked: bool = False,
    ) -> Any:
        """As `hg.Client` shows.

        `run` for asyncio: a task that is cancelled cancels the job. `progress` is called on another thread.

        Raises as `run`.
        """
        id = secrets.token_hex(16)
        return await self._calls.run(id, self._run, x, progress, deadline, unchecked, id)

    def _run(
        self, x: Any, progress: Callable[[str, float], None] | None, deadline: float | None, unchecked: bool, id: str
    ) -> Any:
        tensors = x if isinstance(x, (list, tuple)) and x and all(isinstance(t, Tensor) for t in x) else (x,)
        model, clear = self.model, not isinstance(tensors[0], Tensor)
        if clear:
            if self._secret is None:
                raise _core.MissingKeyError(
                    "clear values are encrypted by a secret key: upload_keys(secret), or hg.Client(..., secret=secret)"
                )
            made = model.encrypt(self._secret, x, unchecked=unchecked)
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
        return model.decrypt(self._secret, answer, like=x, unchecked=unchecked)

    def get(self, key: Any, *, deadline: float | None = None) -> Any:
        """As `hg.Client` shows.

        The row of a key in a table that the service has in clear, as `hg.query.LookupClient.get` gives it: the service does not
        learn which. None where there is no such key. No keys are uploaded: each question brings its own.

        Raises as `LookupClient.ask` and `run`.
        """
        question = self.table.ask(key)
        return question.read(self._asked(question, deadline, secrets.token_hex(16)))

    async def aget(self, key: Any, *, deadline: float | None = None) -> Any:
        """As `hg.Client` shows.

        `get` for asyncio: a task that is cancelled cancels the job. Raises as `get`.
        """
        question, id = self.table.ask(key), secrets.token_hex(16)
        return question.read(await self._calls.run(id, self._asked, question, deadline, id))

    def _asked(self, question: Question, deadline: float | None, id: str) -> bytes:
        body = question.to_bytes()
        return self._job("get", body, (len(body),), None, None, id, deadline)

    def nearest(self, vector: Any, k: int = 10, *, deadline: float | None = None) -> Neighbours:
        """As `hg.Client` shows.

        The ids and scores of the `k` vectors of the service that have the largest inner products with this one, int8
        [dimension]: the service learns neither. `upload_keys(secret)` comes first, once, with a key of `half.parameters`.

        Raises as `hg.query.VectorClient` and `run`.
        """
        half: Any = self.half
        if not isinstance(half, VectorLayout):
            raise _core.ParameterError('this client is of no vectors: hg.Client(address, model="faces")')
        if self._secret is None or self._keys is None:
            raise _core.MissingKeyError("a vector is encrypted by a secret key: upload_keys(secret) first")
        secret: Any = self._secret
        party = VectorClient(half, secret)
        body = party.encrypt(vector).to_bytes()
        data = self._job("nearest", body, (len(body),), self._keys, None, secrets.token_hex(16), deadline)
        return party.nearest(Scores.from_bytes(data), k)

    def sql(self, text: str, *, table: str, keys: str | None = None, deadline: float | None = None) -> Answer:
        """As `hg.Client` shows.

        The encrypted answer to a query on an uploaded table, as `hg.query.SqlServer.sql` gives it; `keys`: None: this
        client's.

        Raises SqlError, and as `run`.
        """
        if not isinstance(text, str):
            raise _core.DtypeError(f"a query is a text, not {described(text)}")
        require_written(text, "a query")
        chosen = self._keys if keys is None else _digest(keys)
        if chosen is None:
            raise _core.MissingKeyError("the service has no keys to compute with: upload_keys first")
        body, table = text.encode(), _digest(table)
        return Answer.from_bytes(self._job("sql", body, (), chosen, None, secrets.token_hex(16), deadline, table=table))

    def _cancel(self, id: str) -> bool:
        """Ends a job at the service; whether that knew it."""
        try:
            self._line.ask("DELETE", path("jobs", id), until=time.monotonic() + min(self.timeout, 5.0))
        except _core.HeliographError:  # it had ended, or has not come there
            return False
        return True

    def _job(
        self,
        kind: str,
        body: bytes | Written | None,
        parts: tuple[int, ...],
        keys: str | None,
        progress: Callable[[str, float], None] | None,
        id: str,
        deadline: float | None,
        table: str | None = None,
    ) -> bytes:
        """Sends a job until it is known there, and waits for its answer."""
        seconds = self.timeout if deadline is None else min(_seconds(deadline, "a deadline"), self.timeout)
        until = time.monotonic() + seconds + (0.0 if deadline is None else 1.0)
        told = {"id": id, "kind": kind, "keys": keys, "table": table, "seconds": seconds}
        told |= {"model": self._name if kind != "sql" else None, "parts": ",".join(map(str, parts)) or None}
        wait = 0.0 if progress else min(_WAIT, self.timeout / 6)
        where = path("jobs", **told, watch="1" if progress else "0", wait=wait)
        patience = self._line.patience(until - time.monotonic())
        try:
            reply = self._begun(id, where, body, wait, patience)
            while reply.status == 202:
                if time.monotonic() > until + _SPARE:
                    self._cancel(id)
                    raise DeadlineError(f"it was not done within {seconds:g} s")
                with _known(lambda: "it has accepted the job"):
                    following = self._waited(id, reply, progress, until)
                if following is None:
                    patience.pause()  # behind a balancer, another service may have it
                    following = self._begun(id, where, body, wait, patience)
                reply = following
        except BaseException as error:
            if not isinstance(error, Exception) or not isinstance(error, _core.HeliographError):
                self._cancel(id)  # Ctrl-C, or what `progress` raised: nobody waits any more
            raise
        return reply.body

    def _begun(self, id: str, where: str, body: bytes | Written | None, wait: float, patience: Patience) -> Reply:
        """The first answer to a job that is sent until it is known there. After a cut the service is asked for it first, where all
        of it was sent: it may have it.
        """
        sent = False
        with _known(lambda: f"the job {'may be' if sent else 'is not'} known there"):
            while True:
                if id in self._calls.unwanted:
                    raise _core.CancelledError("the call was cancelled before its job was known to the service")
                try:
                    if sent:
                        with suppress(UnknownJobError):
                            asked = path("jobs", id, "answer", wait=wait)
                            return self._line.once("GET", asked, until=patience.until, wait=wait)
                        sent = False
                    return self._line.once("POST", where, body, until=patience.until, wait=wait)
                except ServiceError as error:
                    sent = isinstance(error, CutError) and (sent or error.stage >= Stage.WAITING)
                    self._line.again(patience, error)

    def _waited(self, id: str, reply: Reply, progress: Callable[[str, float], None] | None, until: float) -> Reply | None:
        """One more question after a job; None where the service forgot it (it was started anew), so that it is to be sent
        again."""
        try:
            if progress is None:
                # The service's own word of a deadline comes before this side's.
                left = min(_WAIT, self.timeout / 6, until + _SPARE - time.monotonic())
                where = path("jobs", id, "answer", wait=max(left, 0.1))
                return self._line.ask("GET", where, until=until + 1.0, wait=left)
            said = reply.json()
            if said.get("state") == "running" and said.get("stage"):
                share = said.get("share")
                progress(printable(str(said["stage"])), float(share) if isinstance(share, (int, float)) else 0.0)
            where = path("jobs", id, wait=1.0, seen=said.get("version", 0))
            state = self._line.ask("GET", where, until=until, wait=1.0)
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
        half = self._model
        version = f" {half.version}" if isinstance(half, SealedModel) else ""
        known = "none" if half is None else f"{printable(str(self._name))}{version}, {digest_of(half)[:16]}"
        return [
            ("service", repr(self._line)),
            ("model", known),
            ("keys", "none there" if self._keys is None else self._keys[:16]),
        ]

    def __repr__(self) -> str:
        return f"<client of {self._line!r}: model {dict(self._rows())['model']}>"


@contextmanager
def _known(what: Callable[[], str]) -> Iterator[None]:
    """Adds what is known of the service's side to the error of a call that got no answer."""
    try:
        yield
    except UnreachableError as error:
        if type(error) is not UnreachableError:
            raise
        raise UnreachableError(f"{error}; {what()}") from None


class _File:
    """A file's bytes, of which memory holds what is being sent. Slices are read; DamagedFileError where it became shorter."""

    def __init__(self, name: str) -> None:
        self._name, self._descriptor = printable(name), os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        told = os.fstat(self._descriptor)
        self.nbytes = told.st_size
        if not stat.S_ISREG(told.st_mode):
            os.close(self._descriptor)
            raise _core.DamagedFileError(f"{self._name} is a folder, or no file of bytes")

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
def _opened(name: str, kind: str) -> Iterator[_File]:
    with _File(name) as file:
        if not file.nbytes:
            raise _core.DamagedFileError(f"{printable(name)} is empty")
        _require_kind(file, printable(name), kind)
        yield file


def _require_kind(file: _File, name: str, kind: str) -> None:
    """Before a byte of it is sent: a file is what it is taken for, and above all no secret key."""
    head = bytes(file[: _container.PREFIX])
    head = bytes(file[: _container.PREFIX + _container.header_length(head, file.nbytes)])
    scheme = split_type(type_of_bytes(head) or "")
    if scheme and "secret" in scheme[1]:
        raise _core.FormatError(f"{name} is a SECRET key, which no service may have: nothing of it was sent")
    found = kind_of(head)
    if found != kind:
        other = "upload_table" if found == "table" else "upload_keys"
        raise _core.FormatError(f"{name} is a file of {found}: {other} sends it")


def _seconds(value: Any, what: str) -> float:
    if not is_real(value) or not 0 < value <= _LONGEST:
        raise _core.ParameterError(f"{what} is a number of seconds above 0, not {described(value)}")
    return float(value)


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise _core.ParameterError(f"keys and tables are named by SHA-256, 64 hexadecimal digits, not by {described(value)}")
    return value


def _count(reply: Reply, name: str, most: int) -> int:
    """A header that counts bytes."""
    found = reply.headers.get(name, "")
    return _offset(int(found) if found.isascii() and found.isdigit() and len(found) < 20 else None, most)


def _offset(value: Any, most: int) -> int:
    """What a service says of its bytes. Raises ServiceError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ServiceError(f"what answered is no service of Heliograph: it has {described(value)} of {most:,} bytes")
    return value
