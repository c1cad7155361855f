"""Records of a store: what is known of each content of each client, on disk and in memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._arrays import printable
from heliograph._json import read_json
from heliograph.serving.errors import EvictedKeyError, ExpiredKeyError, RevokedKeyError, StorageError
from heliograph.serving.numeric import real, whole

FORMAT = 1  #: of a store's folder; one without store.json is of format 1
DIGEST = re.compile(r"[0-9a-f]{64}")
_LATEST = 1e12  # seconds since 1970 that a file may tell
#: Why something is gone, and the error that says so.
GONE: dict[str, tuple[type[Exception], str]] = {
    "revoked": (RevokedKeyError, "were taken back by their owner"),
    "expired": (ExpiredKeyError, "were not used for as long as this service keeps them: upload them again"),
    "evicted": (EvictedKeyError, "had to give way to others: upload them again"),
    "damaged": (
        StorageError,
        "cannot be used: their record on the service's disk is damaged, so whether they were taken back is not known; make new ones",
    ),
}
_KINDS = ("keys", "table")
_STATES = ("kept", "revoked", "expired", "evicted")
FORGOTTEN = ("expired", "evicted")  #: states that need not be known for good


@dataclass
class Record:
    """Of one content of one client."""

    digest: str  #: SHA-256 of all its bytes, hex
    owner: str  #: the client's name
    kind: str  #: "keys" or "table"
    nbytes: int
    added: float  #: by the store's `ages`
    used: float
    state: str = "kept"  #: or "revoked", "expired", "evicted"; "damaged": its file cannot be read
    more: dict[str, Any] = field(default_factory=dict)  #: fields of a later version, which are written as they were read

    def to_json(self) -> bytes:
        """Its file."""
        said = asdict(self)
        return json.dumps(said.pop("more") | said).encode()

    @classmethod
    def read(cls, path: Path, owner: str) -> Record:
        """Of its file; of a damaged one a record in the state "damaged". Raises VersionError for a state or kind of a later version."""
        try:
            said = read_json(path.read_bytes())
            known = {name: said.pop(name) for name in ("digest", "owner", "kind", "nbytes", "added", "used", "state")}
            if (known["digest"], known["owner"]) != (path.stem, owner):
                raise ValueError
            if known["kind"] in _KINDS and known["state"] in _STATES:
                return cls(**known, more=said)
        except (ValueError, TypeError, KeyError, AttributeError, _core.ParameterError):
            return cls(path.stem, owner, "keys", 0, 0.0, 0.0, "damaged")
        raise _core.VersionError(
            f"cannot open this store: {printable(str(path))} says {printable(str(known['kind']))}, "
            f"{printable(str(known['state']))}, which this version does not know; use the version that wrote it"
        )

    def __post_init__(self) -> None:  # for what a file says
        self.nbytes = whole(self.nbytes, "bytes")
        self.added, self.used = (real(seconds, "a time", -_LATEST, _LATEST) for seconds in (self.added, self.used))


@lru_cache(maxsize=1 << 12)
def named(owner: str) -> str:
    """A client's folder."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def require_format(folder: Path) -> None:
    """Raises VersionError for a store of a later version, DamagedFileError."""
    path = folder / "store.json"
    try:
        told = read_json(path.read_bytes())["format"]
    except FileNotFoundError:
        return
    except (ValueError, TypeError, KeyError):
        told = None
    if type(told) is not int:
        raise _core.DamagedFileError(
            f'cannot open this store: {printable(str(path))} is damaged; restore it from a backup, or write {{"format": {FORMAT}}}'
        )
    if told > FORMAT:
        raise _core.VersionError(
            f"cannot open the store {printable(str(folder))}: it is of format {told}, and this version reads formats up to {FORMAT}; "
            "use the version that wrote it"
        )


def owner_of(place: Path) -> str | None:
    """Whose folder it is, by owner.json, or by a record where that is damaged. None: nothing of a client's is in it.

    Raises DamagedFileError where nothing says whose it is, for revocations may be in it.
    """
    names = [path for path in place.iterdir() if path.suffix == ".json" and DIGEST.fullmatch(path.stem)]
    for path in (place / "owner.json", *names):
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            told = read_json(path.read_bytes())
            owner = told["owner"] if path in names else told
            if isinstance(owner, str) and place.name == named(owner):
                return owner
    if names:
        raise _core.DamagedFileError(
            f"cannot open this store: nothing in {printable(str(place))} says which client's records these are; "
            "restore its owner.json from a backup, or move the folder away and with it that client's keys and revocations"
        )
    return None
