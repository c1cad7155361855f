"""Tests the store of keys on full and read-only disks and if the system clock jumps. No data is lost unnecessarily."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph._common.service.errors import ExpiredKeyError, QuotaError, RevokedKeyError
from heliograph.serving.settings import Settings
from heliograph.serving.store import Store
from serving_rig import DIGIT, client_of, expected, party, running

DOCS = Path(__file__).resolve().parents[2] / "docs/serving.md"
DAY = 86400.0
YEAR = 365 * DAY


def made_keys() -> bytes:
    """Returns evaluation keys of a small set; they have 0.1 MB."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=100))
    return bytes(secret.evaluation_keys(rotations=[]).to_bytes())


@pytest.fixture(scope="module")
def keys() -> bytes:
    """Returns keys for tests that do not change them."""
    return made_keys()


class Clock:
    """A simulated wall clock, which tests set, and a simulated monotonic clock."""

    def __init__(self) -> None:
        self.wall, self.steady = 1.8e9, 1000.0

    def passes(self, seconds: float) -> None:
        """Advances both clocks."""
        self.wall, self.steady = self.wall + seconds, self.steady + seconds

    def starts_anew(self) -> None:
        """Starts the monotonic clock again, as a reboot does."""
        self.steady = 5.0


def store_of(folder: Path, clock: Clock, days: float = 30.0) -> Store:
    """Returns a store whose sizes are practically not limited."""
    return Store(
        folder,
        Settings(quota=1 << 40, store_capacity=1 << 40, time_to_live=days * DAY),
        lambda: clock.wall,
        lambda: clock.steady,
    )


def sent(store: Store, data: bytes, owner: str = "ann") -> str:
    """Uploads data and returns its digest."""
    digest = hashlib.sha256(data).hexdigest()
    have, whole = store.progress(owner, digest)
    if not whole:
        upload = store.begin(owner, digest, have, len(data))
        upload.write(data[have:])
        assert store.finish(owner, upload, digest)
    return digest


def days(store: Store, clock: Clock, count: int) -> None:
    """Advances by some days, with a sweep every hour."""
    for _ in range(24 * count):
        clock.passes(3600)
        store.sweep()


# Clocks


def test_unused_keys_expire(tmp_path: Path, keys: bytes) -> None:
    """Keys expire after 30 days without use. A use starts this period again; a restart of the service does not."""
    clock = Clock()
    store = store_of(tmp_path, clock)
    digest = sent(store, keys)
    days(store, clock, 29)
    store.path("ann", digest, "keys")
    days(store, clock, 20)
    store.close()
    store = store_of(tmp_path, clock)
    days(store, clock, 9)
    assert [record.digest for record in store.records("ann")] == [digest]
    days(store, clock, 2)
    assert not store.records("ann")
    with pytest.raises(ExpiredKeyError, match="expired, unused"):
        store.path("ann", digest, "keys")
    assert not list(tmp_path.rglob("*.hg"))


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 40 * DAY])
@pytest.mark.parametrize("stopped", [False, True])
def test_jumps_of_the_clock_delete_nothing(tmp_path: Path, keys: bytes, jump: float, stopped: bool) -> None:
    """If the wall clock jumps by a year, during operation or between runs, nothing is deleted, and ages continue."""
    clock = Clock()
    store = store_of(tmp_path, clock)
    digest = sent(store, keys)
    days(store, clock, 10)
    more = made_keys()
    half = hashlib.sha256(more).hexdigest()
    store.begin("ann", half, 0, len(more)).write(more[:5000])
    store.sweep()
    clock.wall += jump
    if stopped:
        clock.starts_anew()
        store.close()
        store = store_of(tmp_path, clock)
    assert store.sweep() == []
    assert store.progress("ann", half) == (5000, False)  # an unfinished upload also remains
    store.path("ann", digest, "keys")
    (told,) = store.clock.jumps()
    assert abs(told - jump) < 1
    (record,) = store.records("ann")
    assert abs(store.clock.to_unix_time(record.used) - clock.wall) < 1
    clock.wall -= jump  # the wall clock is set back to the right time
    days(store, clock, 29)
    assert store.records("ann")
    days(store, clock, 2)
    assert not store.records("ann")  # expiry still works after the jumps


def test_downtime_does_not_count_towards_expiry(tmp_path: Path, keys: bytes) -> None:
    """Time in which the service does not run does not count towards expiry. The time does count if the service restarts
    within a minute.
    """
    clock = Clock()
    store = store_of(tmp_path, clock)
    sent(store, keys)
    days(store, clock, 20)
    for pause in (90 * DAY, 30.0):
        clock.passes(pause)
        store.close()
        store = store_of(tmp_path, clock)
        assert store.sweep() == []
        assert len(store.clock.jumps()) == (pause > DAY)
    days(store, clock, 11)
    assert not store.records("ann")


def test_abandoned_uploads_are_deleted(tmp_path: Path, keys: bytes) -> None:
    """An unfinished upload is deleted after a day without data."""
    clock = Clock()
    store = store_of(tmp_path, clock)
    digest = hashlib.sha256(keys).hexdigest()
    for part in range(3):
        store.begin("ann", digest, 1000 * part, len(keys)).write(keys[1000 * part : 1000 * part + 1000])
        for _ in range(20):
            clock.passes(3600)
            store.sweep()
        assert store.progress("ann", digest) == (1000 * part + 1000, False)
    days(store, clock, 1)
    assert store.progress("ann", digest) == (0, False)


def libfaketime() -> str | None:
    """Returns the path of Debian's libfaketime, which changes the clock of a process, or None."""
    return next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


@pytest.mark.full
@pytest.mark.skipif(libfaketime() is None, reason="libfaketime is not installed")
def test_a_service_keeps_keys_when_its_clock_is_set(tmp_path: Path) -> None:
    """If the clock of `heliograph serve` is set forward and back by a year, keys still work, and the log reports both jumps."""
    pytest.importorskip("uvicorn")
    digits, at = rig.export(tmp_path)[0], tmp_path / "clock"
    at.write_text("+0")
    places = {"LD_PRELOAD": str(libfaketime()), "FAKETIME_TIMESTAMP_FILE": str(at)}
    fake = places | {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1"}
    with running(digits, "--store", tmp_path / "store", "--time-to-live", "1h", environment=fake) as service:
        client = client_of(service)
        party(client)
        for setting in ("+365d", "-365d"):
            at.write_text(setting)
            service.until(lambda: service.events("clock_jumped"))
            assert np.array_equal(client.run(DIGIT), expected())
            (told,) = client.uploads()
            assert abs(told["used"] - time.time() - (YEAR if setting[0] == "+" else -YEAR)) < DAY
            service.lines[:] = [line for line in service.lines if "clock_jumped" not in line]
        assert not service.events("object_expired")


# Disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts a disk of 30 MB and returns its folder."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a disk needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m", "heliograph", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Fills the disk until `left` bytes are free."""
    path = disk / "other"
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
        file.truncate(max(file.tell() - left, 0))
    return path


def test_a_service_on_a_full_disk(tmp_path: Path, disk: Path) -> None:
    """On a full disk, requests are refused by typed errors, stored keys work, uploads continue later, and revoked keys are
    deleted.
    """
    pytest.importorskip("uvicorn")
    digits = rig.export(tmp_path)[0]
    store = disk / "store"
    with running(digits, "--store", store, "--time-to-live", "3s") as service:
        first = client_of(service)
        party(first)
        other = fill(disk, left=5 << 20)
        second = client_of(service)
        secret = hg.SecretKey.generate(second.model.parameters)
        made = second.model.keys(secret)
        with pytest.raises(hg.QuotaError, match="disk is full"):
            second.upload_keys(made)
        digest = hashlib.sha256(made.to_bytes()).hexdigest()
        there = service_part(store, digest).stat().st_size
        assert there > 4 << 20
        with pytest.raises(hg.QuotaError, match="disk is full"):
            first.run(DIGIT)
        assert first.status()["queue"]["unfinished"] == 0
        other.unlink()
        assert np.array_equal(first.run(DIGIT), expected())
        shares: list[float] = []
        second.upload_keys(made, shares.append)
        assert shares[0] > there / len(made.to_bytes())  # the upload does not start again from the beginning
        second._secret = secret
        assert np.array_equal(second.run(DIGIT), expected())
        fill(disk)
        first.revoke()
        with pytest.raises(hg.RevokedKeyError):
            first.run(DIGIT)
        assert len(list(store.rglob("*.hg"))) == 1
        fill(disk)
        service.until(lambda: service.events("object_expired"))  # the task that deletes expired objects also works
        assert not list(store.rglob("*.hg"))
        assert not service.errors()
    with running(digits, "--store", store) as service:
        client = client_of(service)
        client._keys, client._secret = first.keys, first._secret
        with pytest.raises(hg.RevokedKeyError):
            client.run(DIGIT)


def service_part(store: Path, digest: str) -> Path:
    """Returns the file of the unfinished upload."""
    return next(store.glob(f"*/{digest}.*.part"))


def test_a_store_on_a_full_disk(disk: Path, keys: bytes) -> None:
    """On a full disk a new client gets a QuotaError, eviction still works, and a restart finds all objects."""
    room = int(1.5 * len(keys))
    store = Store(disk / "store", Settings(store_capacity=room))
    digest = sent(store, keys)
    other = fill(disk)
    with pytest.raises(QuotaError, match="disk is full"):
        store.begin("bob", "0" * 64, 0, 100)
    store.close()
    again = Store(disk / "store", Settings(store_capacity=room))
    assert [record.digest for record in again.records("ann")] == [digest]
    upload = again.begin("ann", "0" * 64, 0, len(keys))  # the first object may have been evicted
    assert upload.offset == 0
    assert again.records("ann")  # bytes that are only announced evict no object
    upload.write(keys)
    assert not again.records("ann")
    with pytest.raises(hg.HeliographError, match="evicted to make room"):
        again.path("ann", digest, "keys")
    other.unlink()
    again.discard("ann", "0" * 64)
    assert sent(again, keys) == digest


# Read-only disks


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Remounts the disk as read-only, as the kernel does after an error."""
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_store_on_a_read_only_disk(disk: Path, keys: bytes) -> None:
    """On a read-only disk, stored keys work. A revocation is refused, has no effect and can be repeated, and a start is
    refused.

    """
    store = Store(disk / "store", Settings())
    digest, half = sent(store, keys), hashlib.sha256(b"half").hexdigest()
    store.begin("ann", half, 0, 1000).write(bytes(31))
    with read_only(disk):
        assert not store.writable()
        assert store.path("ann", digest, "keys").exists()
        for one in (digest, half):
            with pytest.raises(hg.StorageError, match="Read-only file system"):
                store.revoke("ann", one)
        assert [record.digest for record in store.records("ann")] == [digest]
        assert store.progress("ann", half) == (31, False)
        with pytest.raises(hg.StorageError):
            sent(store, made_keys(), "bob")
        store.sweep()
        store.close()
        with pytest.raises(hg.StorageError, match=r"cannot open the store .*must be writable, got Read-only file system"):
            Store(disk / "store", Settings())
        with pytest.raises(hg.StorageError, match="Read-only file system"):
            Store(disk / "other", Settings())
    again = Store(disk / "store", Settings())
    for one in (digest, half):
        again.revoke("ann", one)
    assert not again.records("ann")
    assert not list(disk.rglob("*.hg")) + list(disk.rglob("*.part"))


def test_expiry_on_a_read_only_disk(disk: Path, keys: bytes) -> None:
    """Expired objects cannot be used any more, and are deleted when the disk is writable."""
    clock = Clock()
    store = store_of(disk / "store", clock)
    digest = sent(store, keys)
    with read_only(disk):
        days(store, clock, 31)
        with pytest.raises(ExpiredKeyError):
            store.path("ann", digest, "keys")
        assert list(disk.rglob("*.hg"))
    store.sweep()
    assert not list(disk.rglob("*.hg"))


def test_a_service_on_a_read_only_disk(tmp_path: Path, disk: Path) -> None:
    """Jobs are answered. A revocation gives a typed error, and the log has the error of the system."""
    pytest.importorskip("uvicorn")
    digits = rig.export(tmp_path)[0]
    with running(digits, "--store", disk / "store") as service:
        client = client_of(service)
        party(client)
        with read_only(disk):
            assert np.array_equal(client.run(DIGIT), expected())
            with pytest.raises(hg.StorageError, match="tell its operator"):
                client.revoke()
            assert len(client.uploads()) == 1
            assert np.array_equal(client.run(DIGIT), expected())
            (told,) = service.until(lambda: service.events("request_refused"))
            assert (told["error"], told["errno"]) == ("StorageError", "EROFS")
            service.until(lambda: service.events("store_read_only"))
        client.revoke()
        with pytest.raises(hg.RevokedKeyError):
            client.run(DIGIT)


# Records and their formats


def record_of(folder: Path) -> Path:
    """Returns the file of the only record that exists."""
    (found,) = (path for path in folder.glob("*/*.json") if path.name != "owner.json")
    return found


def test_revocations_are_kept_forever(tmp_path: Path, keys: bytes) -> None:
    """Revocations are kept forever, and records of expired objects are deleted after a month."""
    clock = Clock()
    store = store_of(tmp_path, clock)
    store.revoke("ann", sent(store, keys))
    days(store, clock, 40)
    store.close()
    with pytest.raises(RevokedKeyError):
        sent(store_of(tmp_path, clock), keys)


def test_records_of_a_later_version_are_kept(tmp_path: Path, keys: bytes) -> None:
    """Fields that only a later version knows are kept; an unknown state is refused."""
    store = Store(tmp_path, Settings())
    digest = sent(store, keys)
    store.revoke("ann", digest)
    store.close()
    record = record_of(tmp_path)
    record.write_text(json.dumps(json.loads(record.read_text()) | {"later": [1, "two"]}))
    store = Store(tmp_path, Settings())
    with pytest.raises(RevokedKeyError):
        sent(store, keys)
    assert not store.records("ann")
    store.close()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"state": "kept", "nbytes": len(keys)}))
    (record.parent / f"{digest}.hg").write_bytes(keys)
    store = Store(tmp_path, Settings())
    store.revoke("ann", digest)  # this use makes the store write the record again
    store.close()
    told = json.loads(record.read_text())
    assert (told["later"], told["state"]) == ([1, "two"], "revoked")
    record.write_text(json.dumps(told | {"state": "suspended"}))
    with pytest.raises(hg.VersionError, match=f"{record}.*suspended.*use the version that wrote it"):
        Store(tmp_path, Settings())


@pytest.mark.parametrize("damage", ["", "nonsense", "{}", "[]", '{"digest": 1}', '"text"'])
def test_a_damaged_record_forgets_no_revocation(tmp_path: Path, keys: bytes, damage: str) -> None:
    """If the record of an object is damaged, the object cannot be used or uploaded again, because it may have been revoked.
    Other objects work.
    """
    store = Store(tmp_path, Settings())
    digest, other = sent(store, keys), sent(store, made_keys())
    store.close()
    record = next(tmp_path.glob(f"*/{digest}.json"))
    record.write_text(damage)
    store = Store(tmp_path, Settings())
    assert store.problems() == [f"record {record.parent.name[:8]}/{digest[:8]} is damaged"]
    for ask in (lambda: store.path("ann", digest, "keys"), lambda: store.begin("ann", digest, 0, 1)):
        with pytest.raises(hg.StorageError, match="the record on the service's disk is damaged"):
            ask()
    assert [kept.digest for kept in store.records("ann")] == [other]
    store.revoke("ann", digest)
    assert json.loads(record.read_text())["state"] == "revoked"


def test_a_damaged_client_name_is_restored_from_records(tmp_path: Path, keys: bytes) -> None:
    """The name of a client is also in the records. If it is in neither place, the store is not opened, because revocations
    could be lost.

    """
    store = Store(tmp_path, Settings())
    digest = sent(store, keys)
    store.revoke("ann", digest)
    store.close()
    (tmp_path / "lock").unlink()
    name = next(tmp_path.glob("*/owner.json"))
    name.write_text("")
    store = Store(tmp_path, Settings())
    with pytest.raises(RevokedKeyError):
        sent(store, keys)
    store.close()
    record_of(tmp_path).write_text("")
    with pytest.raises(hg.DamagedFileError, match=r"restore its owner\.json from a backup"):
        Store(tmp_path, Settings())


def test_formats_of_stores_are_checked(tmp_path: Path, keys: bytes) -> None:
    """A store without a format file gets one. If the format is later or the file is damaged, the error names it."""
    store = Store(tmp_path, Settings())
    digest = sent(store, keys)
    store.revoke("ann", digest)
    kept = sent(store, made_keys())
    store.close()
    (tmp_path / "store.json").unlink()
    first = (
        '"owner": "ann", "kind": "keys", "nbytes": 131808, "added": 1795732190.5, "used": 1795732191.25, "state": "revoked"}'
    )
    # makes a store without a format file, as the first version wrote it
    next(tmp_path.glob(f"*/{digest}.json")).write_text(f'{{"digest": "{digest}", {first}')
    store = Store(tmp_path, Settings())
    assert [record.digest for record in store.records("ann")] == [kept]
    with pytest.raises(RevokedKeyError):
        store.path("ann", digest, "keys")
    store.close()
    assert json.loads((tmp_path / "store.json").read_text()) == {"format": 1}
    for text, error in (('{"format": 2}', hg.VersionError), ("{", hg.DamagedFileError), ("[]", hg.DamagedFileError)):
        (tmp_path / "store.json").write_text(text)
        with pytest.raises(error, match=r"cannot open"):
            Store(tmp_path, Settings())
    (tmp_path / "store.json").write_text('{"format": 1}')
    Store(tmp_path, Settings()).close()


# Backups


def restored(backup: Path, folder: Path, before: Path | None = None) -> None:
    """Restores a backup by the commands in docs/serving.md, and adds the revocations of the previous store."""
    commands = DOCS.read_text(encoding="utf-8").partition("<!-- restore -->")[2].partition("```sh\n")[2].partition("```")[0]
    copy, merge = commands.splitlines()
    places = {
        "/backup/heliograph": str(backup),
        "/var/lib/heliograph.before": str(before),
        "/var/lib/heliograph": str(folder),
    }
    for line in (copy, merge) if before else (copy,):
        for place, own in places.items():
            line = re.sub(rf"(?<![\w.]){re.escape(place)}(?![\w.])", own, line)
        subprocess.run(["sh", "-c", line], check=True)


def test_a_backup_of_an_open_store_is_valid(tmp_path: Path, keys: bytes) -> None:
    """A copy of an open store is a valid backup. Objects are complete, an unfinished upload continues, and files are
    private.

    """
    store, more = Store(tmp_path / "store", Settings()), made_keys()
    digest, half = sent(store, keys), hashlib.sha256(more).hexdigest()
    store.begin("ann", half, 0, len(more)).write(more[:5000])
    (tmp_path / "store" / "spool").mkdir()
    subprocess.run(["cp", "-r", tmp_path / "store", tmp_path / "backup"], check=True)
    later = sent(store, made_keys())
    store.revoke("ann", digest)
    (tmp_path / "backup").chmod(0o755)
    restored(tmp_path / "backup", tmp_path / "again")
    again = Store(tmp_path / "again", Settings())
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o700
    assert [record.digest for record in again.records("ann")] == [digest]  # the backup has the state at the time of the copy
    assert again.progress("ann", half) == (5000, False)
    assert sent(again, more) == half
    again.close()
    assert later


def test_a_restored_backup_keeps_later_revocations(tmp_path: Path, keys: bytes) -> None:
    """A restored backup takes over the revocations of the previous store if that store can be read. The restored store
    deletes the revoked objects.

    """
    store = Store(tmp_path / "store", Settings())
    digest, kept = sent(store, keys), sent(store, made_keys())
    subprocess.run(["cp", "-a", tmp_path / "store", tmp_path / "backup"], check=True)
    store.revoke("ann", digest)
    store.close()
    restored(tmp_path / "backup", tmp_path / "again", tmp_path / "store")
    again = Store(tmp_path / "again", Settings())
    with pytest.raises(RevokedKeyError):
        again.path("ann", digest, "keys")
    assert [record.digest for record in again.records("ann")] == [kept]
    assert len(list((tmp_path / "again").rglob("*.hg"))) == 1
