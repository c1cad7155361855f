"""Messages between the service and its engines: one JSON object a line, with the name of its class as `type`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

ErrorFields = dict[str, Any]  # an error as JSON (`errors.to_json`)


@dataclass(frozen=True)
class Message:
    """A message between the service and an engine. The fields of a message are JSON values."""

    def encode(self) -> bytes:
        """Returns the message as one line of text."""
        return json.dumps({"type": type(self).__name__} | vars(self)).encode() + b"\n"


def decode(line: bytes | str) -> Message:
    """Parses a line of text as a message. Raises ValueError for an invalid line."""
    fields = json.loads(line)
    try:
        return _TYPES[fields.pop("type")](**fields)
    except (AttributeError, KeyError, TypeError):
        raise ValueError("the line is not a message") from None


# From the service to an engine


@dataclass(frozen=True)
class Start(Message):
    """The start of an engine, passed as the process's argument."""

    line: int  #: descriptor of the socket for messages
    models: dict[str, tuple[str, str]]  #: path and digest of each file, by name
    memory: int  #: bytes
    batches: dict[str, int]  #: largest batch of each group


@dataclass(frozen=True, kw_only=True)
class Run(Message):
    """A job to compute."""

    job: str
    kind: str
    model: str  #: name of a model or table in clear; "" for SQL queries
    group: str | None  #: the batch group; None if the job is computed alone
    parts: list[int] = field(default_factory=list)  #: bytes of each tensor of the request
    watch: bool = False  #: whether the client requests progress
    request: str = ""  #: path of the request's bytes
    output: str = ""  #: path for the answer
    keys: str = ""  #: path of the evaluation keys
    keys_digest: str = ""
    table: str = ""  #: path of an encrypted table
    table_digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Read(Run):
    """A job whose request the engine shall read while it arrives; a `Run` of the same job follows, or a `Drop`."""


@dataclass(frozen=True)
class Arrived(Message):
    """The number of bytes of the request of a `Read` that have arrived."""

    job: str
    nbytes: int


@dataclass(frozen=True)
class Drop(Message):
    """The request of a `Read` will not arrive completely, or another engine computes the job."""

    job: str


@dataclass(frozen=True)
class Cancel(Message):
    """A job to cancel."""

    job: str


@dataclass(frozen=True)
class Update(Message):
    """A model or table whose file the engine shall read again, between two batches."""

    job: str
    model: str


@dataclass(frozen=True)
class Forget(Message):
    """Keys that were revoked or expired."""

    digest: str


# From an engine to the service


@dataclass(frozen=True)
class Ready(Message):
    """The engine is ready. `refused` has the error of each file that the engine could not load."""

    threads: int
    refused: dict[str, ErrorFields]


@dataclass(frozen=True)
class Failure(Message):
    """The engine cannot start."""

    error: ErrorFields


@dataclass(frozen=True)
class Begun(Message):
    """A batch is being computed: its jobs, and the number of valid queries."""

    jobs: list[str]
    model: str
    count: int


@dataclass(frozen=True)
class Computed(Message):
    """A job's answer is computed; the engine writes it while it computes the next job."""

    job: str


@dataclass(frozen=True)
class Done(Message):
    """A job has ended, with an answer or an error."""

    job: str
    error: ErrorFields | None
    nbytes: int  #: bytes of the answer
    seconds: float  #: seconds of computation of the whole batch
    batch: int  #: jobs of the batch
    key_bytes: int  #: bytes of keys in the engine's memory


@dataclass(frozen=True)
class Progress(Message):
    """The completed share of a job's present stage, 0 to 1."""

    job: str
    stage: str
    share: float


@dataclass(frozen=True)
class Fault(Message):
    """A job has failed by an unexpected error: the error's class and place, and the errno's name."""

    job: str
    error: str
    errno: str | None


@dataclass(frozen=True)
class Damaged(Message):
    """A job's stored keys or table are damaged."""

    job: str
    digest: str


_TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        *(Start, Run, Read, Arrived, Drop, Cancel, Update, Forget),
        *(Ready, Failure, Begun, Computed, Done, Progress, Fault, Damaged),
    )
}
