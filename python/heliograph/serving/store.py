"""The store: clients' keys and tables on disk, named by their SHA-256.

The files hold all state, so that the process may be killed at any moment. The store's folder has one folder for each client,
named by a digest of the client's name:

    CLIENT/DIGEST.SIZE.part   an unfinished upload of SIZE bytes; the file's length is its offset
    CLIENT/DIGEST.hg          a complete, verified content; its modification time is its last use
    CLIENT/DIGEST.json        the record of a content, kept after its removal with the reason
    clock.json                the store's clock (`expiry`)
    CLIENT/revoked            digests that were revoked long ago, one a line; their records were deleted
    store.json                the format of this folder, `FORMAT`

A file gets its final name once its bytes are flushed to the disk and match the digest. A removal is recorded before the file
is deleted. A start completes steps that a kill interrupted.

A record of a revocation is never deleted without its digest in `revoked`. Unknown fields of records are written back
unchanged. A later version that adds a field, state or file that older versions must respect increases `FORMAT`, so that
older versions refuse the store.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common import container
from heliograph._common.arguments import printable, readable_bytes
from heliograph._common.service.errors import (
    BusyError,
    ForeignKeyError,
    QuotaError,
    RevokedKeyError,
    StorageError,
    UnknownKeyError,
    UploadError,
)
from heliograph._common.service.uploads import DIGEST, upload_kind
from heliograph.serving.disks import disk_errors, lock_folder, sync_folder
from heliograph.serving.expiry import ExpiryClock
from heliograph.serving.records import FORGETTABLE, FORMAT, REMOVAL_ERRORS, Record, folder_name, owner_of, require_format
from heliograph.serving.settings import Settings

_PART = re.compile(r"([0-9a-f]{64})\.([0-9]{1,18})\.part")
_UPLOAD_IDLE = 60.0  # seconds without a byte after which an unfinished upload may be evicted for another
_TOMBSTONE_LIFE = 30 * 86400.0  # seconds for which the reason of a removal is remembered; a revocation is permanent
_PIECE = 1 << 20
_FLUSH_BYTES = 512 << 20  # bytes of an upload that may be in the page cache without a flush


class Upload:
    """An upload with one writing request at a time. The file of an upload is open only during a write; the next writing
    request takes the upload over.

    `reserve` counts arriving bytes before they are written, and may raise QuotaError; a negative count returns bytes that
    were not written.
    """

    def __init__(self, path: Path, offset: int, total: int, sha: Any, reserve: Callable[[int], None]) -> None:
        self.path, self.offset, self.total = path, offset, total
        self.sha: Any = sha  # SHA-256 state of the first `offset` bytes; None if the file must be read again
        self.stale = False
        self._reserve = reserve
        self._lock, self._flushed = threading.Lock(), offset

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends bytes. Raises UploadError if another request has taken over, QuotaError for lack of room, FormatError for
        other contents than keys and tables.
        """
        self._require_expected(len(data))
        self._reserve(len(data))  # without the lock, because the call may evict other uploads
        before = self.offset
        try:
            with self._lock:
                self._require_expected(len(data))
                if self.offset == 0:
                    self._begin(data)
                with disk_errors():
                    self._append(memoryview(data))
        finally:
            self._reserve(self.offset - before - len(data))

    def _require_expected(self, nbytes: int) -> None:
        if self.stale:
            raise UploadError("another request has taken this upload over; query its offset and resume there", self.offset)
        if self.offset + nbytes > self.total:
            raise UploadError(
                f"the upload must have {self.total:,} bytes, got at least {self.offset + nbytes:,}; start it again",
                self.offset,
            )

    def _append(self, view: memoryview) -> None:
        """Appends bytes to the file. Raises OSError; bytes that were written before remain."""
        descriptor, done = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), 0
        try:
            while done < len(view):
                done += os.write(descriptor, view[done:])
        finally:
            if done:
                self.offset += done
                self.sha = self.sha and _updated(self.sha, view[:done])
            try:
                self._flush(descriptor)
            finally:
                os.close(descriptor)

    def _flush(self, descriptor: int) -> None:
        """Flushes the file now and then, so that the end of a large upload is quick and the page cache does not fill."""
        if self.offset - self._flushed >= _FLUSH_BYTES:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, self._flushed, self.offset - self._flushed, os.POSIX_FADV_DONTNEED)
            self._flushed = self.offset

    def _begin(self, data: bytes | bytearray | memoryview) -> None:
        """Checks the content's kind from the first piece, before the client sends more."""
        if len(data) < _core.container.PREFIX_BYTES:
            return
        end = _core.container.header_end(memoryview(data)[: _core.container.PREFIX_BYTES], self.total)
        if len(data) >= end:
            upload_kind(memoryview(data)[:end])

    def close(self) -> None:
        """Ends writing."""
        with self._lock:
            self.stale = True


def _updated(sha: Any, data: memoryview) -> Any:
    sha.update(data)
    return sha


class Store:
    """Clients' uploaded keys and tables. Thread-safe.

    If the contents exceed the capacity, the client with the most bytes loses its least recently used contents.

    Raises OSError if the path is not a folder, StorageError if the folder is not writable, ParameterError if another service
    uses it. Raises VersionError if a later version wrote the store, and DamagedFileError.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.settings = folder, settings
        self._lock = threading.RLock()
        self._records: dict[str, dict[str, Record]] = {}  # records by client and digest
        self._parts: dict[str, dict[str, Upload]] = {}
        self._totals: dict[str, dict[str, int]] = {}  # announced bytes of unfinished uploads, by client, by digest
        self._arrived: dict[tuple[str, str], int] = {}  # arrived bytes of unfinished uploads
        self._last_bytes: dict[tuple[str, str], float] = {}  # when the last bytes of an unfinished upload arrived
        self._used: dict[str, int] = {}  # stored bytes of each client, unfinished uploads included
        self._counts = {"keys": 0, "table": 0}
        self._pending_deletions: list[Record] = []  # records of removed contents whose files still exist
        self._record_lock = threading.Lock()
        self._known_folders: set[Path] = set()
        self._revoked: dict[str, set[str]] = {}  # digests of revoked contents without a record, by client
        self._failed_removals: dict[tuple[str, str], Record] = {}  # removals that the disk has refused
        self._removals: list[tuple[Record, str]] = []
        self._problems: list[str] = []
        self._lock_and_probe(folder)
        try:
            require_format(folder)
            self.clock = ExpiryClock(folder / "clock.json", clock, steady)
            for place in sorted(p for p in folder.iterdir() if p.is_dir() and re.fullmatch("[0-9a-f]{32}", p.name)):
                self._read_folder(place)
            with contextlib.suppress(QuotaError), disk_errors():
                container.save(str(folder / "store.json"), json.dumps({"format": FORMAT}).encode())
        except BaseException:
            self.close()
            raise

    def _lock_and_probe(self, folder: Path) -> None:
        """Locks the folder and writes to it, so that a folder that is not writable is refused at once."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_mode & 0o077:  # restores modes that a copy from a backup has lost
                with contextlib.suppress(PermissionError):
                    folder.chmod(0o700)
            self._lock_file = lock_folder(folder)
            with contextlib.suppress(QuotaError), disk_errors():
                container.save(str(folder / "lock.probe"), b"")
                (folder / "lock.probe").unlink()
        except FileExistsError:  # the path `folder` is a file
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        except (OSError, StorageError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, NotADirectoryError):
                raise cause from None
            why = getattr(cause, "strerror", None) or error
            raise StorageError(
                f"cannot open the store {printable(str(folder))}: its folder must be writable, got {why}; "
                "mend it, or give another --store"
            ) from error

    def close(self) -> None:
        """Unlocks the folder."""
        self._lock_file.close()

    def writable(self) -> bool:
        """Returns whether the disk is writable; the system may have remounted it read-only."""
        return os.access(self.folder, os.W_OK | os.X_OK)

    def removals(self) -> list[tuple[Record, str]]:
        """Returns the contents removed since the last call, each with its reason: "evicted", "expired", "revoked",
        "damaged".
        """
        with self._lock:
            found, self._removals = self._removals, []
            return found

    def problems(self) -> list[str]:
        """Returns descriptions of damage found at the start, for the log; later calls return none."""
        with self._lock:
            found, self._problems = self._problems, []
            return found

    # Folders

    def _client_folder(self, owner: str) -> Path:
        place = self.folder / folder_name(owner)
        if place not in self._known_folders or not place.exists():
            with disk_errors():
                place.mkdir(parents=True, exist_ok=True, mode=0o700)
            name = place / "owner.json"
            if not name.exists():
                with disk_errors():
                    container.save(str(name), json.dumps(owner).encode())
                    sync_folder(place)
                    sync_folder(self.folder)
            self._known_folders.add(place)
        return place

    def _read_folder(self, place: Path) -> None:
        """Reads a client's folder and completes interrupted steps. Raises DamagedFileError, VersionError."""
        owner = owner_of(place)
        if owner is None:
            return  # not a client's folder, or a service was killed before the first upload
        records = self._records[owner] = dict[str, Record]()
        for path in place.iterdir():
            if path.name.startswith(".heliograph-"):
                path.unlink()
            elif path.suffix == ".json" and DIGEST.fullmatch(path.stem):
                record = records[path.stem] = Record.read(path, owner)
                if record.state == "damaged":
                    self._problems.append(f"record {place.name[:8]}/{path.stem[:8]} is damaged")
            elif path.name == "revoked":
                digests = {line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line}
                self._revoked[owner] = {digest for digest in digests if DIGEST.fullmatch(digest)}
                if len(self._revoked[owner]) < len(digests):
                    self._problems.append(f"{place.name[:8]}/revoked is damaged: some revocations may be lost")
            elif match := _PART.fullmatch(path.name):
                self._count_upload(owner, match[1], int(match[2]), path.stat().st_size, self.clock.now())
        for path in place.glob("*.hg"):
            found = records.get(path.stem)
            if found is not None and found.state == "damaged":
                continue  # the content's file stays, so that its record can be restored
            if found is not None and found.state != "kept":
                path.unlink()  # the record says that the content was removed
                continue
            status = path.stat()
            if found is None:  # a verified content under its final name, whose record was not written
                try:
                    with path.open("rb") as file:
                        kind = upload_kind(file.read(_core.container.PREFIX_BYTES + _core.container.MAX_HEADER_BYTES))
                except _core.HeliographError:
                    continue  # the file is not a content of the store: an upload of this digest replaces the file
                found = records[path.stem] = Record(path.stem, owner, kind, status.st_size, status.st_mtime, status.st_mtime)
                self._write_record(place, found)
            found.used = status.st_mtime
        for record in records.values():
            if record.state == "kept" and not (place / f"{record.digest}.hg").exists():
                record.state = "evicted"  # another program deleted the file
                self._write_record(place, record)
        for record in records.values():
            if record.state == "kept":
                self._count_kept(record, 1)
        self._known_folders.add(place)

    def _write(self, place: Path, record: Record) -> None:
        with disk_errors():
            container.save(str(place / f"{record.digest}.json"), record.to_json())
            sync_folder(place)

    def _write_record(self, place: Path, record: Record) -> bool:
        """Writes a record that the next start could reconstruct. Returns whether the disk accepted the record."""
        with contextlib.suppress(QuotaError, StorageError, BusyError), self._record_lock:  # locked: in the order of changes
            if self._is_current(record):
                self._write(place, record)
            return True
        return False

    # Accounts; the caller holds the lock

    def _add(self, owner: str, nbytes: int) -> None:
        self._used[owner] = self._used.get(owner, 0) + nbytes
        if not self._used[owner]:
            del self._used[owner]

    def _count_kept(self, record: Record, sign: int) -> None:
        self._add(record.owner, sign * record.nbytes)
        self._counts[record.kind] += sign

    def _count_upload(self, owner: str, digest: str, total: int, have: int, moved: float) -> None:
        self._totals.setdefault(owner, {})[digest] = total
        self._arrived[owner, digest], self._last_bytes[owner, digest] = have, moved
        self._add(owner, have)

    def _forget_upload(self, owner: str, digest: str) -> None:
        totals = self._totals.get(owner, {})
        if totals.pop(digest, None) is not None:
            self._add(owner, -self._arrived.pop((owner, digest)))
            del self._last_bytes[owner, digest]
            if not totals:
                del self._totals[owner]

    # Uploads

    def progress(self, owner: str, digest: str) -> tuple[int, bool]:
        """Returns how many bytes of a content the store has, and whether it is complete."""
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if record is not None and record.state == "kept":
                return record.nbytes, True
            total = self._totals.get(owner, {}).get(digest)
            if total is None:
                return 0, False
            try:
                return self._part(owner, digest, total).stat().st_size, False
            except FileNotFoundError:  # another program deleted the file
                self.discard(owner, digest)
                return 0, False

    def _part(self, owner: str, digest: str, total: int) -> Path:
        return self._client_folder(owner) / f"{digest}.{total}.part"

    def begin(self, owner: str, digest: str, offset: int, total: int) -> Upload:
        """Opens an upload at `offset` of a content of `total` bytes.

        Raises UploadError if the store has another offset, QuotaError for lack of room, BusyError at the limit of all
        clients' unfinished uploads, RevokedKeyError for revoked content.
        """
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if (record is not None and record.state == "revoked") or digest in self._revoked.get(owner, ()):
                raise RevokedKeyError(
                    f"{digest[:8]} was revoked by its owner permanently; make new keys, or encrypt the table again"
                )
            if record is not None and record.state == "damaged":
                self._record(owner, digest)
            before = self._parts.get(owner, {}).pop(digest, None)
            if before is not None:
                before.close()
            known = self._totals.get(owner, {}).get(digest)
            if known is None and offset:
                raise UploadError(f"the upload must start at byte 0, got {offset:,}", 0)
            if known is not None and known != total:
                raise UploadError(f"the upload must have {known:,} bytes, got {total:,}", self.progress(owner, digest)[0])
            if known is None:
                self._require_room(owner, total)
            path = self._part(owner, digest, total)
            with disk_errors():
                path.touch(mode=0o600)
                have = path.stat().st_size
            moved = self._last_bytes.get((owner, digest), self.clock.now())
            self._forget_upload(owner, digest)
            # Drops bytes that another request reserved and did not write.
            self._count_upload(owner, digest, total, have, moved)
            if offset != have:
                raise UploadError(f"the upload must continue at byte {have:,}, got {offset:,}", have)
            sha = hashlib.sha256() if not have else before.sha if before is not None and before.offset == have else None
            upload = Upload(path, have, total, sha, lambda nbytes: self._reserve(owner, digest, upload, nbytes))
            self._parts.setdefault(owner, {})[digest] = upload
            return upload

    def _require_room(self, owner: str, total: int) -> None:
        """Checks a client's limits for one more upload. Idle unfinished uploads are evicted; announced bytes do not evict
        contents of other clients.

        """
        settings, mine = self.settings, self._totals.get(owner, {})
        count = len(mine) + sum(r.state == "kept" for r in self._records.get(owner, {}).values())
        if count >= settings.max_objects_per_client:
            raise QuotaError(
                f"cannot store one more upload: a client may have at most {settings.max_objects_per_client:,} keys "
                f"and tables, and you have {count:,}; "
                "revoke those that are no longer used"
            )
        arrived = sum(self._arrived[owner, digest] for digest in mine)
        announced = self._used.get(owner, 0) - arrived + sum(mine.values()) + total
        if announced > settings.quota:
            raise QuotaError(
                f"cannot store these {readable_bytes(total)}: you would have {readable_bytes(announced)}, the quota is "
                f"{readable_bytes(settings.quota)}; revoke keys and tables that are no longer used"
            )
        self._choose_evictions(owner, total, None)
        if len(mine) >= settings.max_uploads_per_client and not self._drop_idle_upload(owner):
            raise QuotaError(
                f"cannot begin one more upload: a client may have at most {settings.max_uploads_per_client:,} "
                "unfinished uploads; finish or revoke one"
            )
        if sum(map(len, self._totals.values())) >= settings.max_uploads:
            most = max(self._totals, key=lambda client: (len(self._totals[client]), client == owner))
            if not self._drop_idle_upload(most):
                raise BusyError(
                    f"cannot begin one more upload: {settings.max_uploads:,} of all clients are unfinished, "
                    "the limit; retry in 5 s",
                    5.0,
                )

    def _drop_idle_upload(self, owner: str) -> bool:
        """Discards a client's longest idle unfinished upload. Returns False if no upload has been idle long enough."""
        digest = min(self._totals[owner], key=lambda digest: self._last_bytes[owner, digest])
        if self.clock.now() - self._last_bytes[owner, digest] < _UPLOAD_IDLE:
            return False
        self.discard(owner, digest)
        return True

    def _reserve(self, owner: str, digest: str, upload: Upload, nbytes: int) -> None:
        """Adds `nbytes` to an upload's quota use; a negative number releases bytes not written. Raises QuotaError."""
        with self._lock:
            if upload.stale or (owner, digest) not in self._arrived:
                return
            if nbytes > 0:
                for gone in self._choose_evictions(owner, nbytes, digest):
                    if isinstance(gone, Record):
                        self._gone(gone, "evicted")
                    else:
                        self.discard(*gone)
                self._last_bytes[owner, digest] = self.clock.now()
            self._arrived[owner, digest] += nbytes
            self._add(owner, nbytes)
        self._remove()

    def _choose_evictions(self, owner: str, nbytes: int, current: str | None) -> list[Record | tuple[str, str]]:
        """Returns the contents to evict so that `nbytes` of a client fit: records, and unfinished uploads other than the
        `current` one.

        Evicts from the client with the most bytes; among several such clients, the least recently used content. So a client
        evicts contents of another client only if that client has more bytes. Raises QuotaError.
        """
        over = sum(self._used.values()) + nbytes - self.settings.store_capacity
        if over <= 0:
            return []
        uses = self._used | {owner: self._used.get(owner, 0) + nbytes}
        found, left = list[Record | tuple[str, str]](), dict[str, list[tuple[float, int, Record | tuple[str, str]]]]()
        while over > 0:
            most = max(uses.values())
            largest = [client for client, used in uses.items() if used == most]
            for client in largest:
                if client not in left:
                    left[client] = sorted(
                        self._removable(client, current if client == owner else None), key=lambda one: -one[0]
                    )
            oldest = (
                min((left[client][-1][0], client) for client in largest if left[client])
                if any(map(left.get, largest))
                else None
            )
            if oldest is None:
                raise QuotaError(
                    f"the service has no room for {readable_bytes(nbytes)} more of yours; "
                    "revoke keys and tables that are no longer used"
                )
            client = oldest[1]
            _, size, one = left[client].pop()
            found.append(one)
            uses[client] -= size
            over -= size
        return found

    def _removable(self, owner: str, current: str | None) -> Iterator[tuple[float, int, Record | tuple[str, str]]]:
        """Yields a client's contents: time of last use, bytes, and the record or upload."""
        for record in self._records.get(owner, {}).values():
            if record.state == "kept":
                yield record.used, record.nbytes, record
        for digest in self._totals.get(owner, {}):
            if digest != current:
                yield self._last_bytes[owner, digest], self._arrived[owner, digest], (owner, digest)

    def finish(self, owner: str, upload: Upload, digest: str) -> bool:
        """Verifies an upload whose bytes have all arrived, and stores it. Returns whether the upload is complete.

        Raises DamagedFileError if the digest does not match, FormatError for other contents than keys and tables; the bytes
        are deleted then.
        """
        if upload.offset != upload.total or upload.stale:
            return False
        try:
            with disk_errors():
                descriptor = os.open(upload.path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                sha = upload.sha or _read_again(upload.path)
            if sha.hexdigest() != digest:
                raise _core.DamagedFileError(
                    f"the upload must have the SHA-256 {digest[:16]}..., got another digest, "
                    f"{sha.hexdigest()[:16]}...; upload it again"
                )
            with disk_errors(), upload.path.open("rb") as file:
                head = file.read(_core.container.PREFIX_BYTES)
                end = _core.container.header_end(head, upload.total)
                kind = upload_kind(head + file.read(end - len(head)))
        except BusyError:
            raise
        except _core.HeliographError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # the upload was evicted during the verification
                raise UploadError("the upload was evicted; start it again", 0) from None
            # Deletes the upload even if only fsync failed: unwritten bytes may be lost, and a second fsync would not report
            # the loss.
            with contextlib.suppress(StorageError):
                self.discard(owner, digest)
            raise
        with self._lock:
            if self._parts.get(owner, {}).get(digest) is not upload:  # another request has taken over
                return False
            now, place = self.clock.now(), self._client_folder(owner)
            with disk_errors():
                upload.path.replace(place / f"{digest}.hg")
                os.utime(place / f"{digest}.hg", (now, now))
            self._forget_upload(owner, digest)
            self._parts.get(owner, {}).pop(digest, None)
            upload.close()
            record = Record(digest, owner, kind, upload.total, now, now)
            self._records.setdefault(owner, {})[digest] = record
            self._count_kept(record, 1)
        self._write_record(place, record)
        return True

    def discard(self, owner: str, digest: str) -> None:
        """Deletes an unfinished upload. Raises StorageError; in this case the upload remains."""
        with self._lock:
            upload = self._parts.get(owner, {}).pop(digest, None)
            if upload is not None:
                upload.close()
            total = self._totals.get(owner, {}).get(digest)
            if total is not None:
                with disk_errors():
                    self._part(owner, digest, total).unlink(missing_ok=True)
                self._forget_upload(owner, digest)

    # Functions that use contents

    def path(self, owner: str, digest: str, kind: str) -> Path:
        """Returns the path of a content's file and records its use. Raises UnknownKeyError, ForeignKeyError,
        RevokedKeyError, ExpiredKeyError, EvictedKeyError.
        """
        try:
            with self._lock:
                record = self._record(owner, digest)
                if record.kind != kind:
                    raise UnknownKeyError(f"{digest[:8]} must be of kind {kind}, got {record.kind}")
                now = self.clock.now()
                if now - record.used > self.settings.time_to_live:
                    self._gone(record, "expired")
                    self._record(owner, digest)
                record.used = now
                found = self.folder / f"{folder_name(owner)}/{digest}.hg"
                try:
                    os.utime(found, (record.used, record.used))
                except FileNotFoundError:  # another program deleted the file
                    self._gone(record, "evicted")
                    self._record(owner, digest)
                except OSError:  # the disk is read-only: the content is usable, its last use is lost at the next start
                    pass
                return found
        finally:
            self._remove()

    def drop(self, owner: str, digest: str) -> None:
        """Evicts a content that the disk has damaged, so that its owner uploads it again."""
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if record is not None and record.state == "kept":
                self._gone(record, "evicted", "damaged")
        self._remove()

    def _record(self, owner: str, digest: str) -> Record:
        record = self._records.get(owner, {}).get(digest)
        if record is None:
            if digest in self._revoked.get(owner, ()):
                raise RevokedKeyError(
                    f"{digest[:8]} was revoked by its owner permanently; make new keys, or encrypt the table again"
                )
            if any(digest in others for others in self._records.values()):
                raise ForeignKeyError(f"{digest[:8]} belongs to another client; upload your own")
            raise UnknownKeyError(f"{digest[:8]} was not uploaded, or not completely; upload it")
        if record.state in REMOVAL_ERRORS:
            kind, reason = REMOVAL_ERRORS[record.state]
            raise kind(f"{record.kind} {digest[:8]}: {reason}")
        return record

    def revoke(self, owner: str, digest: str) -> None:
        """Revokes a content permanently, or discards an unfinished upload.

        Raises UnknownKeyError, ForeignKeyError; StorageError and QuotaError if the disk refuses the record or the deletion.
        After such an error the content is not revoked, or its file is not deleted yet; the call may be repeated.
        """
        with self._lock:
            if digest in self._totals.get(owner, {}):
                self.discard(owner, digest)
                return
            record = self._records.get(owner, {}).get(digest)
            if record is None and digest in self._revoked.get(owner, ()):
                return
            if record is None:
                self._record(owner, digest)
                return
            if record.state == "revoked" and (owner, digest) not in self._failed_removals:
                return
            place, now = self._client_folder(owner), self.clock.now()
        file = place / f"{digest}.hg"
        revoked = replace(record, state="revoked", used=now)
        with self._record_lock:  # recorded on disk first, then in memory, then the file is deleted
            try:
                self._write(place, revoked)
            except QuotaError:  # deleting the file makes room for the record
                with disk_errors():
                    file.unlink(missing_ok=True)
                self._write(place, revoked)
            with self._lock:
                before = self._records.setdefault(owner, {}).get(digest)
                if before is not None and before.state == "kept":
                    self._count_kept(before, -1)
                self._records[owner][digest] = self._failed_removals[owner, digest] = revoked
                self._removals.append((revoked, "revoked"))
        with disk_errors():
            file.unlink(missing_ok=True)
        with self._lock:
            self._failed_removals.pop((owner, digest), None)
        self._drop_oldest_removed(owner)

    def _gone(self, record: Record, state: str, reason: str | None = None) -> None:
        """Marks a content as removed; the caller holds the lock. `_remove` deletes the file once the lock is free."""
        if record.state == "kept":
            self._count_kept(record, -1)
        record.state, record.used = state, self.clock.now()
        self._removals.append((record, reason or state))
        self._pending_deletions.append(record)

    def _remove(self) -> None:
        """Records removals on disk and deletes the files; does not hold the lock during writes. A later sweep retries failed
        removals.

        """
        while True:
            with self._lock:
                if not self._pending_deletions:
                    return
                record = self._pending_deletions.pop()
                place, key = self.folder / folder_name(record.owner), (record.owner, record.digest)
            noted = self._write_record(place, record)
            with self._lock:
                try:
                    if self._is_current(record):
                        (place / f"{record.digest}.hg").unlink(missing_ok=True)
                    removed = True
                except OSError:
                    removed = False
            noted = noted or self._write_record(place, record)  # the disk was full, and the deletion made room
            with self._lock:
                if not (noted and removed) and self._is_current(record):
                    self._failed_removals[key] = record
            self._drop_oldest_removed(record.owner)

    def _is_current(self, record: Record) -> bool:
        """Returns whether no new upload has replaced the record."""
        return self._records.get(record.owner, {}).get(record.digest) is record

    def _drop_oldest_removed(self, owner: str) -> None:
        """Limits the records of removed contents to as many as a client may have contents. The oldest records are deleted;
        records of revocations are deleted after their digests were added to `revoked`.

        """
        with self._lock:
            gone = [r for r in self._records.get(owner, {}).values() if r.state in (*FORGETTABLE, "revoked")]
            oldest = sorted(gone, key=lambda r: r.used)[: max(len(gone) - self.settings.max_objects_per_client, 0)]
        for record in oldest:
            try:
                if record.state == "revoked":
                    self._list_revoked(record)
            except (QuotaError, StorageError, BusyError):
                continue
            with self._lock:
                if self._is_current(record):
                    self._forget(record)

    def _list_revoked(self, record: Record) -> None:
        place = self.folder / folder_name(record.owner)
        with self._record_lock, disk_errors():
            descriptor = os.open(place / "revoked", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"\n{record.digest}\n".encode())  # ends a line that a killed process left
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(place)
        with self._lock:
            self._revoked.setdefault(record.owner, set()).add(record.digest)

    def _forget(self, record: Record) -> None:
        with contextlib.suppress(OSError):
            (self.folder / folder_name(record.owner) / f"{record.digest}.json").unlink(missing_ok=True)
        del self._records[record.owner][record.digest]

    def sweep(self) -> list[Record]:
        """Deletes expired contents, old records and idle uploads. Returns the expired records."""
        with self._lock:
            now = self.clock.now()
            self._pending_deletions += self._failed_removals.values()
            self._failed_removals.clear()
            every = [r for records in self._records.values() for r in records.values()]
            expired = [r for r in every if r.state == "kept" and now - r.used > self.settings.time_to_live]
            for record in expired:
                self._gone(record, "expired")
            for record in every:
                if record.state in FORGETTABLE and now - record.used > _TOMBSTONE_LIFE:
                    self._forget(record)
            for (owner, digest), moved in list(self._last_bytes.items()):
                if now - moved > self.settings.upload_time_to_live:
                    with contextlib.suppress(StorageError):
                        self.discard(owner, digest)
        self._remove()
        self.clock.save()
        return expired

    def records(self, owner: str, after: str = "", limit: int | None = None) -> list[Record]:
        """Returns the records of a client's contents by digest: at most `limit` records, from the first digest after `after`
        on.

        """
        with self._lock:
            kept = sorted(d for d, r in self._records.get(owner, {}).items() if r.state == "kept" and d > after)
            return [self._records[owner][digest] for digest in kept[:limit]]

    def counts(self) -> dict[str, int]:
        """Returns the numbers of stored keys and tables of all clients."""
        with self._lock:
            return dict(self._counts)

    def uses(self) -> dict[str, int]:
        """Returns the stored bytes of each client, unfinished uploads included."""
        with self._lock:
            return dict(self._used)

    def used_bytes(self) -> int:
        """Returns the stored bytes of all clients, unfinished uploads included."""
        with self._lock:
            return sum(self._used.values())


def _read_again(path: Path) -> Any:
    """Returns the SHA-256 state of an upload whose first bytes an earlier process received."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sha.update(piece)
    return sha
