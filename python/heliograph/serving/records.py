"""Records of the store: metadata of each client's keys and tables, on disk and in memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.json import read_json
from heliograph._common.service.errors import EvictedKeyError, ExpiredKeyError, RevokedKeyError, StorageError
from heliograph._common.service.uploads import DIGEST
from heliograph.serving.numeric import real, whole

FORMAT = 1  #: format of a store's folder; a folder without store.json has format 1
_LATEST = 1e12  # limit of times in a file, in seconds since 1970
#: The error for each state of removed content.
REMOVAL_ERRORS: dict[str, tuple[type[Exception], str]] = {
    "revoked": (RevokedKeyError, "revoked by the owner; make new keys, or encrypt the table again"),
    "expired": (ExpiredKeyError, "expired, unused for longer than the service keeps uploads; upload again"),
    "evicted": (EvictedKeyError, "evicted to make room for others, or lost by the service's disk; upload again"),
    "damaged": (
        StorageError,
        "the record on the service's disk is damaged and may have said revoked; make new keys, or encrypt the table again",
    ),
}
_KINDS = ("keys", "table")
_STATES = ("kept", "revoked", "expired", "evicted")
FORGETTABLE = ("expired", "evicted")  #: states whose records may be deleted after a while


@dataclass
class Record:
    """Metadata of one content (keys or a table) of one client."""

    digest: str  #: SHA-256 of the content, hexadecimal
    owner: str  #: the client's name
    kind: str  #: "keys" or "table"
    nbytes: int
    added: float  #: time of the content's last use, by the store's clock `expiry`
    used: float
    state: str = "kept"  #: "kept", "revoked", "expired", "evicted", or "damaged" if the record's file is not readable
    more: dict[str, Any] = field(default_factory=dict)  #: fields that a later version wrote; they are written back unchanged

    def to_json(self) -> bytes:
        """Returns the content of the record's file."""
        fields = asdict(self)
        return json.dumps(fields.pop("more") | fields).encode()

    @classmethod
    def read(cls, path: Path, owner: str) -> Record:
        """Reads a record's file. A damaged file gives a record in the state "damaged". Raises VersionError for a state or
        kind of a later version.
        """
        try:
            fields = read_json(path.read_bytes())
            known = {name: fields.pop(name) for name in ("digest", "owner", "kind", "nbytes", "added", "used", "state")}
            if (known["digest"], known["owner"]) != (path.stem, owner):
                raise ValueError
            if known["kind"] in _KINDS and known["state"] in _STATES:
                return cls(**known, more=fields)
        except (ValueError, TypeError, KeyError, AttributeError, _core.ParameterError):
            return cls(path.stem, owner, "keys", 0, 0.0, 0.0, "damaged")
        raise _core.VersionError(
            f"cannot open this store: {printable(str(path))} has the kind {printable(str(known['kind']))} and the state "
            f"{printable(str(known['state']))}, which this version does not know; use the version that wrote it"
        )

    def __post_init__(self) -> None:  # validates values from a file
        self.nbytes = whole(self.nbytes, "bytes")
        self.added, self.used = (real(seconds, "a time", -_LATEST, _LATEST) for seconds in (self.added, self.used))


@lru_cache(maxsize=1 << 12)
def folder_name(owner: str) -> str:
    """Returns the name of a client's folder."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def require_format(folder: Path) -> None:
    """Raises VersionError if a later version wrote the store; DamagedFileError."""
    path = folder / "store.json"
    try:
        found = read_json(path.read_bytes())["format"]
    except FileNotFoundError:
        return
    except (ValueError, TypeError, KeyError):
        found = None
    if type(found) is not int:
        raise _core.DamagedFileError(
            f"cannot open this store: {printable(str(path))} is damaged; "
            f'restore it from a backup, or write {{"format": {FORMAT}}}'
        )
    if found > FORMAT:
        raise _core.VersionError(
            f"cannot open the store {printable(str(folder))}: it has format {found}, "
            f"and this version reads formats up to {FORMAT}; "
            "use the version that wrote it"
        )


def owner_of(place: Path) -> str | None:
    """Returns the client of a folder, from owner.json, or from a record if owner.json is damaged. Returns None if the folder
    holds no client's files.

    Raises DamagedFileError if records exist but no record names the client: they may hold revocations.
    """
    names = [path for path in place.iterdir() if path.suffix == ".json" and DIGEST.fullmatch(path.stem)]
    for path in (place / "owner.json", *names):
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            fields = read_json(path.read_bytes())
            owner = fields["owner"] if path in names else fields
            if isinstance(owner, str) and place.name == folder_name(owner):
                return owner
    if names:
        raise _core.DamagedFileError(
            f"cannot open this store: no file in {printable(str(place))} names the client of its records; "
            "restore its owner.json from a backup, or move the folder away and lose that client's keys and revocations"
        )
    return None
