"""Keys and tables on disk, by their content: what a client uploads once, and what becomes of it.

Files are the truth, so that the process may be killed at any moment. Below the store's folder, each client has one, named by a digest
of its name:

    CLIENT/DIGEST.SIZE.part   an upload that is not whole; its length says how far it is
    CLIENT/DIGEST.hg          whole, and verified; its time of change is when it was last used
    CLIENT/DIGEST.json        what is known of it, also after it has gone, and why it went
    clock.json                the time by which all this is dated (`ages`)
    CLIENT/revoked            digests that were revoked long ago, a line each: their records made room for others
    store.json                the format of all this, `FORMAT`

A file gets its last name after its bytes are on the disk and have the digest that it is named by. What is taken away is first said to
be gone, then removed. A start finds what stopped between two such steps, and ends it.

A record is never forgotten, because it may say that its content was revoked. Fields that this version does not know are kept. A later
version that needs older ones to heed a field, a state or a file raises `FORMAT`: then older ones refuse the store.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heliograph import _container, _core
from heliograph._arrays import printable, readable_bytes
from heliograph._schemes import split_type, type_of_bytes
from heliograph.serving.ages import Ages
from heliograph.serving.disks import full_disks, held, sync_folder
from heliograph.serving.errors import (
    BusyError,
    ForeignKeyError,
    QuotaError,
    RevokedKeyError,
    StorageError,
    UnknownKeyError,
    UploadError,
)
from heliograph.serving.records import DIGEST, FORGOTTEN, FORMAT, GONE, Record, named, owner_of, require_format

_PART = re.compile(r"([0-9a-f]{64})\.([0-9]{1,18})\.part")
_TABLE = "heliograph.query.table"
_UPLOAD_REST = 60.0  # seconds without a byte after which an unfinished upload may give way to another
_TOMBSTONE_LIFE = 30 * 86400.0  # seconds for which is known why something went; a revocation is known for good
_PIECE = 1 << 20
_SETTLED = 512 << 20  # bytes of an upload that the disk may have to be waited for


@dataclass(frozen=True)
class Bounds:
    """Of what clients may have in a store."""

    quota: int = 4 << 30  #: bytes of one client, those that its unfinished uploads announce included
    capacity: int = 64 << 30  #: bytes of all clients that have arrived
    time_to_live: float = 30 * 86400.0  #: seconds without use, of those in which the service runs
    objects: int = 1000  #: keys and tables of one client
    uploads: int = 16  #: unfinished uploads of one client
    all_uploads: int = 1024  #: unfinished uploads of all clients
    upload_time_to_live: float = 86400.0  #: seconds without a byte for an unfinished upload


def kind_of(head: bytes | memoryview) -> str:
    """What a container that begins so is: "keys" or "table". Raises FormatError for all else, a secret key above all."""
    found = type_of_bytes(head) or ""
    if found == _TABLE:
        return "table"
    scheme = split_type(found)
    if scheme and scheme[1] == "evaluation-keys":
        return "keys"
    if scheme and "secret" in scheme[1]:
        raise _core.FormatError(
            "this is a SECRET key, which no service may have: it was refused, and what had come was removed"
        )
    raise _core.FormatError(f"a service keeps evaluation keys and encrypted tables, not {printable(found) or 'other files'}")


class Upload:
    """An upload that one request at a time writes to. The file is open during a write only. The next writer takes it over.

    `reserve` counts bytes that arrive before they are written, and may raise QuotaError; negative bytes were not written.
    """

    def __init__(self, path: Path, offset: int, total: int, sha: Any, reserve: Callable[[int], None]) -> None:
        self.path, self.offset, self.total = path, offset, total
        self.sha: Any = sha  # of the first `offset` bytes; None where it must be read again
        self.stale = False
        self._reserve = reserve
        self._lock, self._settled = threading.Lock(), offset

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Goes on. Raises UploadError where another has gone on, QuotaError for what there is no room for, FormatError for what is
        not kept.
        """
        self._require_expected(len(data))
        self._reserve(len(data))  # before the lock, because other uploads may have to give way
        before = self.offset
        try:
            with self._lock:
                self._require_expected(len(data))
                if self.offset == 0:
                    self._begin(data)
                with full_disks():
                    self._append(memoryview(data))
        finally:
            self._reserve(self.offset - before - len(data))

    def _require_expected(self, nbytes: int) -> None:
        if self.stale:
            raise UploadError("somebody else goes on with this upload", self.offset)
        if self.offset + nbytes > self.total:
            raise UploadError(f"more than the {self.total:,} bytes that this upload was to have", self.offset)

    def _append(self, view: memoryview) -> None:
        """Raises OSError; what was written before stays."""
        descriptor, done = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), 0
        try:
            while done < len(view):
                done += os.write(descriptor, view[done:])
        finally:
            if done:
                self.offset += done
                self.sha = self.sha and _updated(self.sha, view[:done])
            try:
                self._settle(descriptor)
            finally:
                os.close(descriptor)

    def _settle(self, descriptor: int) -> None:
        """To the disk, now and then: so the end of a large upload has not all of it to wait for, nor does memory fill with it."""
        if self.offset - self._settled >= _SETTLED:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, self._settled, self.offset - self._settled, os.POSIX_FADV_DONTNEED)
            self._settled = self.offset

    def _begin(self, data: bytes | bytearray | memoryview) -> None:
        """What can be told by the first piece is told at once, before the rest is sent."""
        if len(data) < _container.PREFIX:
            return
        head = bytes(data[: _container.PREFIX])
        length = _container.header_length(head, self.total)
        if len(data) >= _container.PREFIX + length:
            kind_of(memoryview(data)[: _container.PREFIX + length])

    def close(self) -> None:
        """Nobody writes to it any more."""
        with self._lock:
            self.stale = True


def _updated(sha: Any, data: memoryview) -> Any:
    sha.update(data)
    return sha


class Store:
    """What clients have uploaded. Several threads may call it.

    Beyond the bounds' capacity the client with the most bytes gives way: of its own, what was used least recently goes. Raises OSError
    where the folder is none, StorageError where it cannot be written, ParameterError where another service has it, VersionError for one of
    a later version, DamagedFileError.
    """

    def __init__(
        self,
        folder: Path,
        bounds: Bounds,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.bounds = folder, bounds
        self._lock = threading.RLock()
        self._records: dict[str, dict[str, Record]] = {}  # by client, by digest
        self._parts: dict[str, dict[str, Upload]] = {}
        self._totals: dict[str, dict[str, int]] = {}  # bytes that each unfinished upload is to have, by client, by digest
        self._arrived: dict[tuple[str, str], int] = {}  # bytes of an unfinished upload
        self._moved: dict[tuple[str, str], float] = {}  # when its last bytes came
        self._used: dict[str, int] = {}  # bytes of a client, kept and arrived
        self._counts = {"keys": 0, "table": 0}
        self._leaving: list[Record] = []  # gone, and their files are still there
        self._noting = threading.Lock()
        self._ours: set[Path] = set()
        self._revoked: dict[str, set[str]] = {}  # by client: digests without a record
        self._left: dict[tuple[str, str], Record] = {}  # gone, and the disk would not write that or remove the file
        self._removals: list[tuple[Record, str]] = []
        self._problems: list[str] = []
        self._open(folder)
        try:
            require_format(folder)
            self.ages = Ages(folder / "clock.json", clock, steady)
            for place in sorted(p for p in folder.iterdir() if p.is_dir() and re.fullmatch("[0-9a-f]{32}", p.name)):
                self._found(place)
            with contextlib.suppress(QuotaError), full_disks():
                _container.save(str(folder / "store.json"), json.dumps({"format": FORMAT}).encode())
        except BaseException:
            self.close()
            raise

    def _open(self, folder: Path) -> None:
        """Locks the folder, and writes to it: one that cannot be written is refused at once."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_mode & 0o077:  # a backup that was copied without its modes
                with contextlib.suppress(PermissionError):
                    folder.chmod(0o700)
            self._held = held(folder)
            with contextlib.suppress(QuotaError), full_disks():
                _container.save(str(folder / "lock.probe"), b"")
                (folder / "lock.probe").unlink()
        except FileExistsError:  # the system's word for what is there and no folder
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        except (OSError, StorageError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, NotADirectoryError):
                raise cause from None
            why = getattr(cause, "strerror", None) or error
            raise StorageError(
                f"cannot open the store {printable(str(folder))}: its folder must be writable, got {why}; give another --store"
            ) from error

    def close(self) -> None:
        """Lets another service have the folder."""
        self._held.close()

    def writable(self) -> bool:
        """Whether the disk takes writes: it does not after the system has remounted it read-only."""
        return os.access(self.folder, os.W_OK | os.X_OK)

    def removals(self) -> list[tuple[Record, str]]:
        """What has gone since the last question, and why: "evicted", "expired", "revoked", "damaged"."""
        with self._lock:
            found, self._removals = self._removals, []
            return found

    def problems(self) -> list[str]:
        """What a start found damaged, in words for the log, once."""
        with self._lock:
            found, self._problems = self._problems, []
            return found

    # Places

    def _place(self, owner: str) -> Path:
        place = self.folder / named(owner)
        if place not in self._ours or not place.exists():
            with full_disks():
                place.mkdir(parents=True, exist_ok=True, mode=0o700)
            name = place / "owner.json"
            if not name.exists():
                with full_disks():
                    _container.save(str(name), json.dumps(owner).encode())
                    sync_folder(place)
                    sync_folder(self.folder)
            self._ours.add(place)
        return place

    def _found(self, place: Path) -> None:
        """Reads a client's folder, and ends what was stopped half-way. Raises DamagedFileError, VersionError."""
        owner = owner_of(place)
        if owner is None:
            return  # killed before the first upload began, and nothing is in it; or none of ours
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
                    self._problems.append(f"{place.name[:8]}/revoked is damaged: some of what was revoked may not be known")
            elif match := _PART.fullmatch(path.name):
                self._count_upload(owner, match[1], int(match[2]), path.stat().st_size, self.ages.now())
        for path in place.glob("*.hg"):
            found = records.get(path.stem)
            if found is not None and found.state == "damaged":
                continue  # for whoever restores its record
            if found is not None and found.state != "kept":
                path.unlink()  # it was said to be gone
                continue
            told = path.stat()
            if found is None:  # verified, for it has its last name; what is known of it was not written
                try:
                    with path.open("rb") as file:
                        kind = kind_of(file.read(_container.PREFIX + (1 << 20)))
                except _core.HeliographError:
                    continue  # none of ours: an upload of this content takes its place
                found = records[path.stem] = Record(path.stem, owner, kind, told.st_size, told.st_mtime, told.st_mtime)
                self._note(place, found)
            found.used = told.st_mtime
        for record in records.values():
            if record.state == "kept" and not (place / f"{record.digest}.hg").exists():
                record.state = "evicted"  # somebody else removed it
                self._note(place, record)
        for record in records.values():
            if record.state == "kept":
                self._count_kept(record, 1)
        self._ours.add(place)

    def _write(self, place: Path, record: Record) -> None:
        with full_disks():
            _container.save(str(place / f"{record.digest}.json"), record.to_json())
            sync_folder(place)

    def _note(self, place: Path, record: Record) -> bool:
        """Writes what a next start would find by itself, or nearly: whether the disk took it."""
        with (
            contextlib.suppress(QuotaError, StorageError, BusyError),
            self._noting,
        ):  # what is written last is what was said last
            if self._is_current(record):
                self._write(place, record)
            return True
        return False

    # Accounts, by a thread that has the lock

    def _add(self, owner: str, nbytes: int) -> None:
        self._used[owner] = self._used.get(owner, 0) + nbytes
        if not self._used[owner]:
            del self._used[owner]

    def _count_kept(self, record: Record, sign: int) -> None:
        self._add(record.owner, sign * record.nbytes)
        self._counts[record.kind] += sign

    def _count_upload(self, owner: str, digest: str, total: int, have: int, moved: float) -> None:
        self._totals.setdefault(owner, {})[digest] = total
        self._arrived[owner, digest], self._moved[owner, digest] = have, moved
        self._add(owner, have)

    def _forget_upload(self, owner: str, digest: str) -> None:
        totals = self._totals.get(owner, {})
        if totals.pop(digest, None) is not None:
            self._add(owner, -self._arrived.pop((owner, digest)))
            del self._moved[owner, digest]
            if not totals:
                del self._totals[owner]

    # Uploads

    def progress(self, owner: str, digest: str) -> tuple[int, bool]:
        """How many bytes of a content are there, and whether it is whole."""
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if record is not None and record.state == "kept":
                return record.nbytes, True
            total = self._totals.get(owner, {}).get(digest)
            if total is None:
                return 0, False
            try:
                return self._part(owner, digest, total).stat().st_size, False
            except FileNotFoundError:  # somebody else removed it
                self.discard(owner, digest)
                return 0, False

    def _part(self, owner: str, digest: str, total: int) -> Path:
        return self._place(owner) / f"{digest}.{total}.part"

    def begin(self, owner: str, digest: str, offset: int, total: int) -> Upload:
        """An upload to go on with at `offset`, of a content of `total` bytes.

        Raises UploadError where it does not go on there, QuotaError for what there is no room for, BusyError where too many uploads of
        all clients are unfinished, RevokedKeyError for what was taken back, for good.
        """
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if (record is not None and record.state == "revoked") or digest in self._revoked.get(owner, ()):
                raise RevokedKeyError(f"{digest[:8]} was taken back by its owner, and does not come again")
            if record is not None and record.state == "damaged":
                self._record(owner, digest)
            before = self._parts.get(owner, {}).pop(digest, None)
            if before is not None:
                before.close()
            known = self._totals.get(owner, {}).get(digest)
            if known is None and offset:
                raise UploadError(f"this upload goes on at byte 0, not {offset:,}", 0)
            if known is not None and known != total:
                raise UploadError(f"this upload was to have {known:,} bytes, not {total:,}", self.progress(owner, digest)[0])
            if known is None:
                self._require_place(owner, total)
            path = self._part(owner, digest, total)
            with full_disks():
                path.touch(mode=0o600)
                have = path.stat().st_size
            moved = self._moved.get((owner, digest), self.ages.now())
            self._forget_upload(owner, digest)
            self._count_upload(
                owner, digest, total, have, moved
            )  # without bytes that another request reserved and did not write
            if offset != have:
                raise UploadError(f"this upload goes on at byte {have:,}, not {offset:,}", have)
            sha = hashlib.sha256() if not have else before.sha if before is not None and before.offset == have else None
            upload = Upload(path, have, total, sha, lambda nbytes: self._reserve(owner, digest, upload, nbytes))
            self._parts.setdefault(owner, {})[digest] = upload
            return upload

    def _require_place(self, owner: str, total: int) -> None:
        """For one more upload of a client. Unfinished ones that rest give way; announced bytes take nothing from other clients."""
        bounds, mine = self.bounds, self._totals.get(owner, {})
        count = len(mine) + sum(r.state == "kept" for r in self._records.get(owner, {}).values())
        if count >= bounds.objects:
            raise QuotaError(
                f"cannot keep one more object: a client may have at most {bounds.objects:,} keys and tables, and you have {count:,}; "
                "take back what is no longer used"
            )
        arrived = sum(self._arrived[owner, digest] for digest in mine)
        announced = self._used.get(owner, 0) - arrived + sum(mine.values()) + total
        if announced > bounds.quota:
            raise QuotaError(
                f"with these {readable_bytes(total)} there would be {readable_bytes(announced)} of yours; {readable_bytes(bounds.quota)} may be"
            )
        self._giving_way(owner, total, None)
        if len(mine) >= bounds.uploads and not self._drop_resting(owner):
            raise QuotaError(
                f"cannot begin one more upload: a client may have at most {bounds.uploads:,} unfinished uploads; end one, or take one back"
            )
        if sum(map(len, self._totals.values())) >= bounds.all_uploads:
            most = max(self._totals, key=lambda whose: (len(self._totals[whose]), whose == owner))
            if not self._drop_resting(most):
                raise BusyError(f"cannot begin one more upload: {bounds.all_uploads:,} of all clients are unfinished", 5.0)

    def _drop_resting(self, owner: str) -> bool:
        """Discards a client's unfinished upload whose bytes stopped coming first; whether one has stopped for long enough."""
        digest = min(self._totals[owner], key=lambda digest: self._moved[owner, digest])
        if self.ages.now() - self._moved[owner, digest] < _UPLOAD_REST:
            return False
        self.discard(owner, digest)
        return True

    def _reserve(self, owner: str, digest: str, upload: Upload, nbytes: int) -> None:
        """Counts bytes of an upload that arrive, or were not written. Raises QuotaError."""
        with self._lock:
            if upload.stale or (owner, digest) not in self._arrived:
                return
            if nbytes > 0:
                for gone in self._giving_way(owner, nbytes, digest):
                    if isinstance(gone, Record):
                        self._gone(gone, "evicted")
                    else:
                        self.discard(*gone)
                self._moved[owner, digest] = self.ages.now()
            self._arrived[owner, digest] += nbytes
            self._add(owner, nbytes)
        self._remove()

    def _giving_way(self, owner: str, nbytes: int, current: str | None) -> list[Record | tuple[str, str]]:
        """What goes so that so many bytes of a client have room: records, and unfinished uploads other than the `current` one.

        Always of the client that has the most bytes, and of several that have as many what was used least recently: a client makes
        another give way that has more than itself only. Raises QuotaError.
        """
        over = sum(self._used.values()) + nbytes - self.bounds.capacity
        if over <= 0:
            return []
        uses = self._used | {owner: self._used.get(owner, 0) + nbytes}
        found, left = list[Record | tuple[str, str]](), dict[str, list[tuple[float, int, Record | tuple[str, str]]]]()
        while over > 0:
            most = max(uses.values())
            largest = [whose for whose, used in uses.items() if used == most]
            for whose in largest:
                if whose not in left:
                    left[whose] = sorted(
                        self._removable(whose, current if whose == owner else None), key=lambda one: -one[0]
                    )
            oldest = (
                min((left[whose][-1][0], whose) for whose in largest if left[whose]) if any(map(left.get, largest)) else None
            )
            if oldest is None:
                raise QuotaError(f"the service has no room for {readable_bytes(nbytes)} more of yours")
            whose = oldest[1]
            _, size, one = left[whose].pop()
            found.append(one)
            uses[whose] -= size
            over -= size
        return found

    def _removable(self, owner: str, current: str | None) -> Iterator[tuple[float, int, Record | tuple[str, str]]]:
        """When it was used, its bytes, and what it is."""
        for record in self._records.get(owner, {}).values():
            if record.state == "kept":
                yield record.used, record.nbytes, record
        for digest in self._totals.get(owner, {}):
            if digest != current:
                yield self._moved[owner, digest], self._arrived[owner, digest], (owner, digest)

    def finish(self, owner: str, upload: Upload, digest: str) -> bool:
        """Whether an upload is whole: then it is verified, and exists. Raises DamagedFileError for another content than was said,
        FormatError for what is not kept; what had come is removed then.
        """
        if upload.offset != upload.total or upload.stale:
            return False
        try:
            with full_disks():
                descriptor = os.open(upload.path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                sha = upload.sha or _read_again(upload.path)
            if sha.hexdigest() != digest:
                raise _core.DamagedFileError("what was uploaded has another digest than was said: it was damaged on its way")
            with full_disks(), upload.path.open("rb") as file:
                head = file.read(_container.PREFIX)
                kind = kind_of(head + file.read(_container.header_length(head, upload.total)))
        except BusyError:
            raise
        except _core.HeliographError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # it gave way meanwhile
                raise UploadError("this upload was removed: begin it again", 0) from None
            with contextlib.suppress(StorageError):
                self.discard(
                    owner, digest
                )  # also if fsync failed: what it did not write may be lost, and a second one is silent
            raise
        with self._lock:
            if self._parts.get(owner, {}).get(digest) is not upload:  # somebody else goes on with it
                return False
            now, place = self.ages.now(), self._place(owner)
            with full_disks():
                upload.path.replace(place / f"{digest}.hg")
                os.utime(place / f"{digest}.hg", (now, now))
            self._forget_upload(owner, digest)
            self._parts.get(owner, {}).pop(digest, None)
            upload.close()
            record = Record(digest, owner, kind, upload.total, now, now)
            self._records.setdefault(owner, {})[digest] = record
            self._count_kept(record, 1)
        self._note(place, record)
        return True

    def discard(self, owner: str, digest: str) -> None:
        """An upload is given up, and what had come removed. Raises StorageError: it is there as before."""
        with self._lock:
            upload = self._parts.get(owner, {}).pop(digest, None)
            if upload is not None:
                upload.close()
            total = self._totals.get(owner, {}).get(digest)
            if total is not None:
                with full_disks():
                    self._part(owner, digest, total).unlink(missing_ok=True)
                self._forget_upload(owner, digest)

    # Use

    def path(self, owner: str, digest: str, kind: str) -> Path:
        """A content's file, used now. Raises UnknownKeyError, ForeignKeyError, RevokedKeyError, ExpiredKeyError, EvictedKeyError."""
        try:
            with self._lock:
                record = self._record(owner, digest)
                if record.kind != kind:
                    raise UnknownKeyError(f"{digest[:8]} is {record.kind} here, and is to be {kind}")
                now = self.ages.now()
                if now - record.used > self.bounds.time_to_live:
                    self._gone(record, "expired")
                    self._record(owner, digest)
                record.used = now
                found = self.folder / f"{named(owner)}/{digest}.hg"
                try:
                    os.utime(found, (record.used, record.used))
                except FileNotFoundError:  # somebody else removed it
                    self._gone(record, "evicted")
                    self._record(owner, digest)
                except (
                    OSError
                ):  # a disk that is read-only since: what is there is used, and its use is known until a next start
                    pass
                return found
        finally:
            self._remove()

    def drop(self, owner: str, digest: str) -> None:
        """What the disk has damaged is evicted: its owner is told to upload it again."""
        with self._lock:
            record = self._records.get(owner, {}).get(digest)
            if record is not None and record.state == "kept":
                self._gone(record, "evicted", "damaged")
        self._remove()

    def _record(self, owner: str, digest: str) -> Record:
        record = self._records.get(owner, {}).get(digest)
        if record is None:
            if digest in self._revoked.get(owner, ()):
                raise RevokedKeyError(f"{digest[:8]} was taken back by its owner, and does not come again")
            if any(digest in others for others in self._records.values()):
                raise ForeignKeyError(f"{digest[:8]} is of another client")
            raise UnknownKeyError(f"{digest[:8]} was not uploaded, or not to the end")
        if record.state in GONE:
            kind, words = GONE[record.state]
            raise kind(f"{record.kind} {digest[:8]} {words}")
        return record

    def revoke(self, owner: str, digest: str) -> None:
        """Takes a content back, or gives an upload up; for good.

        Raises UnknownKeyError, ForeignKeyError; StorageError and QuotaError where the disk would not write or remove it: then it is
        not revoked, or its file is still to be removed, and it may be revoked again.
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
            if record.state == "revoked" and (owner, digest) not in self._left:
                return
            place, now = self._place(owner), self.ages.now()
        file = place / f"{digest}.hg"
        revoked = replace(record, state="revoked", used=now)
        with self._noting:  # first the disk knows it, then it holds, then the file goes
            try:
                self._write(place, revoked)
            except QuotaError:  # its own bytes make room
                with full_disks():
                    file.unlink(missing_ok=True)
                self._write(place, revoked)
            with self._lock:
                before = self._records.setdefault(owner, {}).get(digest)
                if before is not None and before.state == "kept":
                    self._count_kept(before, -1)
                self._records[owner][digest] = self._left[owner, digest] = revoked
                self._removals.append((revoked, "revoked"))
        with full_disks():
            file.unlink(missing_ok=True)
        with self._lock:
            self._left.pop((owner, digest), None)
        self._drop_oldest_gone(owner)

    def _gone(self, record: Record, state: str, reason: str | None = None) -> None:
        """A thread that has the lock says so; `_remove` ends it once the lock is free."""
        if record.state == "kept":
            self._count_kept(record, -1)
        record.state, record.used = state, self.ages.now()
        self._removals.append((record, reason or state))
        self._leaving.append(record)

    def _remove(self) -> None:
        """Says on the disk what is gone, then removes it: other threads wait for neither. A sweep tries what failed again."""
        while True:
            with self._lock:
                if not self._leaving:
                    return
                record = self._leaving.pop()
                place, key = self.folder / named(record.owner), (record.owner, record.digest)
            noted = self._note(place, record)
            with self._lock:
                try:
                    if self._is_current(record):
                        (place / f"{record.digest}.hg").unlink(missing_ok=True)
                    removed = True
                except OSError:
                    removed = False
            noted = noted or self._note(place, record)  # the disk was full, and has room now
            with self._lock:
                if not (noted and removed) and self._is_current(record):
                    self._left[key] = record
            self._drop_oldest_gone(record.owner)

    def _is_current(self, record: Record) -> bool:
        """Whether no upload has taken its place meanwhile."""
        return self._records.get(record.owner, {}).get(record.digest) is record

    def _drop_oldest_gone(self, owner: str) -> None:
        """As many as a client may have objects have records after they went; what was revoked before these is known without one."""
        with self._lock:
            gone = [r for r in self._records.get(owner, {}).values() if r.state in (*FORGOTTEN, "revoked")]
            oldest = sorted(gone, key=lambda r: r.used)[: max(len(gone) - self.bounds.objects, 0)]
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
        place = self.folder / named(record.owner)
        with self._noting, full_disks():
            descriptor = os.open(place / "revoked", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"\n{record.digest}\n".encode())  # after what a killed process wrote half of
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(place)
        with self._lock:
            self._revoked.setdefault(record.owner, set()).add(record.digest)

    def _forget(self, record: Record) -> None:
        with contextlib.suppress(OSError):
            (self.folder / named(record.owner) / f"{record.digest}.json").unlink(missing_ok=True)
        del self._records[record.owner][record.digest]

    def sweep(self) -> list[Record]:
        """Removes what has been there too long; what has expired."""
        with self._lock:
            now = self.ages.now()
            self._leaving += self._left.values()
            self._left.clear()
            every = [r for records in self._records.values() for r in records.values()]
            expired = [r for r in every if r.state == "kept" and now - r.used > self.bounds.time_to_live]
            for record in expired:
                self._gone(record, "expired")
            for record in every:
                if record.state in FORGOTTEN and now - record.used > _TOMBSTONE_LIFE:
                    self._forget(record)
            for (owner, digest), moved in list(self._moved.items()):
                if now - moved > self.bounds.upload_time_to_live:
                    with contextlib.suppress(StorageError):
                        self.discard(owner, digest)
        self._remove()
        self.ages.save()
        return expired

    def records(self, owner: str, after: str = "", limit: int | None = None) -> list[Record]:
        """What is kept of a client, by digest, so many after one."""
        with self._lock:
            kept = sorted(d for d, r in self._records.get(owner, {}).items() if r.state == "kept" and d > after)
            return [self._records[owner][digest] for digest in kept[:limit]]

    def counts(self) -> dict[str, int]:
        """How many keys and tables of all clients are kept."""
        with self._lock:
            return dict(self._counts)

    def uses(self) -> dict[str, int]:
        """Bytes of each client, kept and arrived."""
        with self._lock:
            return dict(self._used)

    def used_bytes(self) -> int:
        """Of what is kept and of uploads under way, as many as have come."""
        with self._lock:
            return sum(self._used.values())


def _read_again(path: Path) -> Any:
    """The digest of an upload whose beginning another process received."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sha.update(piece)
    return sha
