"""Error classes of the service. The server raises these errors; the client raises the same class by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.sql_error import SqlError

_LONGEST = 2000  # maximum characters of a message from the peer


class Status(NamedTuple):
    """The status of a refused request."""

    http: int
    grpc: str  #: name of gRPC's status code


_BAD_REQUEST, _INTERNAL = Status(400, "INVALID_ARGUMENT"), Status(500, "INTERNAL")
_GONE = Status(410, "FAILED_PRECONDITION")


class ServiceError(_core.HeliographError):
    """The service refused a request, or its answer is invalid. Subclasses name the reason."""

    status = _BAD_REQUEST


class UnreachableError(ServiceError):
    """No complete answer came in time."""


class CertificateError(UnreachableError):
    """The service's certificate is not trusted: it has expired, or names another host or authority. Nothing was sent to the
    service.

    """


class AccessError(ServiceError):
    """The client has no token or certificate that the service accepts."""

    status = Status(401, "UNAUTHENTICATED")


class BusyError(ServiceError):
    """The service has reached a limit. `retry_after` is the number of seconds after which the client may retry."""

    status = Status(503, "UNAVAILABLE")

    def __init__(self, text: str, retry_after: float = 1.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class RateError(BusyError):
    """The client sends more requests per second than its limit allows."""

    status = Status(429, "RESOURCE_EXHAUSTED")


class DeadlineError(ServiceError):
    """A job missed its deadline, or a request arrived too slowly."""

    status = Status(504, "DEADLINE_EXCEEDED")


class QuotaError(ServiceError):
    """A limit of stored bytes, keys, tables or uploads is reached, or the disk is full."""

    status = Status(507, "RESOURCE_EXHAUSTED")


class StorageError(ServiceError):
    """The service's disk cannot be written or read; its operator has to repair it."""

    status = _INTERNAL


class UploadError(ServiceError):
    """An upload cannot continue at the given offset. `offset` is the number of bytes that the service has."""

    status = Status(409, "FAILED_PRECONDITION")

    def __init__(self, text: str, offset: int = 0) -> None:
        super().__init__(text)
        self.offset = offset


class ConflictError(ServiceError):
    """The job's id was used with another request."""

    status = Status(409, "ALREADY_EXISTS")


class UnknownModelError(ServiceError):
    """The service has no model of this name."""

    status = Status(404, "NOT_FOUND")


class ModelUnavailableError(ServiceError):
    """The service's file of this model or table is damaged or was replaced by another; its operator has to repair it."""

    status = Status(503, "FAILED_PRECONDITION")


class UnknownJobError(ServiceError):
    """The service has no job with this id: the job was never accepted, or its answer has expired."""

    status = Status(404, "NOT_FOUND")


class UnknownKeyError(ServiceError):
    """The keys or table were not uploaded, or not completely."""

    status = Status(404, "NOT_FOUND")


class ForeignKeyError(ServiceError):
    """The keys or table belong to another client."""

    status = Status(403, "PERMISSION_DENIED")


class RevokedKeyError(ServiceError):
    """The keys or table were revoked by their owner."""

    status = _GONE


class ExpiredKeyError(ServiceError):
    """The keys or table were unused for longer than the service keeps them."""

    status = _GONE


class EvictedKeyError(ServiceError):
    """The keys or table were deleted to make room for other objects, or damaged on the service's disk."""

    status = _GONE


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
#: Error classes that are sent by name; the client maps any other name to ServiceError.
KINDS: dict[str, type[Exception]] = {**_ENGINE, **{kind.__name__: kind for kind in (*OF_SERVICE, SqlError)}}


#: Statuses of the engine's errors; a class without its own status has that of its base class.
_ENGINE_STATUSES = {
    _core.HeliographError: _BAD_REQUEST,
    _core.CancelledError: Status(409, "CANCELLED"),
    _core.LimitError: Status(413, "RESOURCE_EXHAUSTED"),
    _core.OutOfMemoryError: Status(507, "RESOURCE_EXHAUSTED"),
    _core.DeviceError: _INTERNAL,
    _core.InternalError: _INTERNAL,
}


def status_of(error: BaseException) -> Status:
    """Returns the status of an error: the status of its class, or 500 for an unexpected exception."""
    if isinstance(error, ServiceError):
        return error.status
    return next((_ENGINE_STATUSES[kind] for kind in type(error).__mro__ if kind in _ENGINE_STATUSES), _INTERNAL)


def error_to_json(error: BaseException) -> dict[str, Any]:
    """Converts an error to JSON: its class and text. An unexpected exception becomes an InternalError without its text."""
    name = type(error).__name__
    if KINDS.get(name) is not type(error):
        if isinstance(error, MemoryError):
            return {"name": "OutOfMemoryError", "text": "the service has too little memory for this request; retry later"}
        return {
            "name": "InternalError",
            "text": f"the service failed by an unexpected {name}; tell its operator, whose log has more",
        }
    fields: dict[str, Any] = {"name": name, "text": str(error)}
    if isinstance(error, BusyError):
        fields["retry_after"] = round(error.retry_after, 3)
    if isinstance(error, UploadError):
        fields["offset"] = error.offset
    if isinstance(error, SqlError):
        fields["construct"], fields["text"] = error.construct, str(error).removeprefix(f"{error.construct}: ")
    return fields


def error_from_json(content: Any) -> Exception:
    """Converts the JSON of `error_to_json` to an error. The peer is not trusted: only known classes, text escaped and
    truncated.
    """
    fields: Mapping[str, Any] = content if isinstance(content, dict) else {}
    text = printable(str(fields.get("text", "the service gave no reason")))[:_LONGEST]
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
