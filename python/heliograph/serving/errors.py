"""What a service refuses, by name: the same classes at the server, which raises them, and at the client, which gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heliograph import _core
from heliograph._arrays import printable
from heliograph.query.errors import SqlError

_LONGEST = 2000  # characters of a text from the other side


class ServiceError(_core.HeliographError):
    """A service refused, or answered what cannot be. Kinds of it say what."""


class UnreachableError(ServiceError):
    """Nobody answers there, or not in time."""


class CertificateError(UnreachableError):
    """The service shows a certificate that is not trusted here: expired, of another name or authority. Nothing was sent."""


class AccessError(ServiceError):
    """No token and no certificate that the service knows."""


class BusyError(ServiceError):
    """The service has enough to do. `retry_after` is after how many seconds to ask again."""

    def __init__(self, text: str, retry_after: float = 1.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class RateError(BusyError):
    """More requests in a time than a client may send."""


class DeadlineError(ServiceError):
    """A job was not done by the time that its sender gave it."""


class QuotaError(ServiceError):
    """There is no room for a client's bytes."""


class StorageError(ServiceError):
    """The service's disk cannot be written, or read: a matter of its operator."""


class UploadError(ServiceError):
    """An upload that does not go on where it stopped. `offset` is how many bytes are there."""

    def __init__(self, text: str, offset: int = 0) -> None:
        super().__init__(text)
        self.offset = offset


class ConflictError(ServiceError):
    """A job's id that was given to another request before."""


class UnknownModelError(ServiceError):
    """No model of this name is served."""


class ModelUnavailableError(ServiceError):
    """The service's file of this model or table is damaged, or of another one: a matter of its operator."""


class UnknownJobError(ServiceError):
    """No job of this id: it was never sent, or its answer was kept as long as the service keeps them."""


class UnknownKeyError(ServiceError):
    """Keys or a table that were not uploaded, or not to the end."""


class ForeignKeyError(ServiceError):
    """Keys or a table of another client."""


class RevokedKeyError(ServiceError):
    """Keys or a table that their owner took back."""


class ExpiredKeyError(ServiceError):
    """Keys or a table that nobody used for as long as the service keeps them."""


class EvictedKeyError(ServiceError):
    """Keys or a table that had to give way to others."""


OF_SERVICE = (
    *(ServiceError, UnreachableError, CertificateError, AccessError, BusyError, RateError, DeadlineError),
    *(QuotaError, StorageError),
    *(
        UploadError,
        ConflictError,
        UnknownModelError,
        ModelUnavailableError,
        UnknownJobError,
        UnknownKeyError,
        ForeignKeyError,
        RevokedKeyError,
        ExpiredKeyError,
        EvictedKeyError,
    ),
)
_ENGINE = {
    name: kind for name in dir(_core) if isinstance(kind := getattr(_core, name), type) and issubclass(kind, Exception)
}
#: All that travels by name; another name is a ServiceError at the client.
KINDS: dict[str, type[Exception]] = {**_ENGINE, **{kind.__name__: kind for kind in (*OF_SERVICE, SqlError)}}


def to_wire(error: BaseException) -> dict[str, Any]:
    """An error as JSON: its class and its text. One that nobody raised on purpose is an InternalError, without its text."""
    name = type(error).__name__
    if KINDS.get(name) is not type(error):
        if isinstance(error, MemoryError):
            return {"name": "OutOfMemoryError", "text": "the service has too little memory for this"}
        return {"name": "InternalError", "text": f"the service failed at this ({name}); its log says more"}
    said: dict[str, Any] = {"name": name, "text": str(error)}
    if isinstance(error, BusyError):
        said["retry_after"] = round(error.retry_after, 3)
    if isinstance(error, UploadError):
        said["offset"] = error.offset
    if isinstance(error, SqlError):
        said["construct"], said["text"] = error.construct, str(error).removeprefix(f"{error.construct}: ")
    return said


def from_wire(said: Any) -> Exception:
    """The error that `to_wire` wrote. What another side says is a text to show, no more: of known classes, escaped, and short."""
    fields: Mapping[str, Any] = said if isinstance(said, dict) else {}
    text = printable(str(fields.get("text", "the service did not say why")))[:_LONGEST]
    kind = KINDS.get(str(fields.get("name")), ServiceError)
    if issubclass(kind, BusyError):
        return kind(text, _number(fields.get("retry_after"), 1.0))
    if issubclass(kind, UploadError):
        return kind(text, int(_number(fields.get("offset"), 0)))
    if issubclass(kind, SqlError):
        return kind(printable(str(fields.get("construct", "")))[:_LONGEST], text)
    return kind(text)


def _number(value: Any, otherwise: float) -> float:
    return float(value) if type(value) in (int, float) and 0 <= value < 1 << 53 else otherwise
