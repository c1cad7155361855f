"""Jobs of clients, and the queue."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from heliograph import _core
from heliograph._common.arguments import described
from heliograph._common.service.kinds import JobKind
from heliograph.serving.numeric import real, whole
from heliograph.serving.spool import Answer, Request

JOB_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
#: Final states of a job.
ENDS = ("done", "failed", "cancelled")
LONGEST_SECONDS = 1e9  #: seconds; limit of deadlines and waits


@dataclass(frozen=True)
class JobSpec:
    """A client's request for a job, without the request's body."""

    id: str  #: chosen by the client: requests with the same id are one job, which is computed once
    kind: JobKind
    keys: str  #: the digest of evaluation keys; "" for look-ups
    model: str = ""  #: name of the model or table in clear; "" for SQL queries
    table: str = ""  #: the digest of an encrypted table; "" except for SQL queries
    parts: tuple[int, ...] = ()  #: bytes of each tensor of the request, in order
    seconds: float | None = None  #: the deadline in seconds from the job's acceptance
    watch: bool = False  #: whether the client requests progress

    @property
    def subject(self) -> tuple[object, ...]:
        """The fields, apart from the body, that a repeated request with the same id must repeat."""
        return self.kind, self.keys, self.model, self.table, self.parts

    def __post_init__(self) -> None:
        if not JOB_ID.fullmatch(self.id):
            raise _core.ParameterError(
                f"a job's id must be 16 to 64 letters, digits, dashes or underscores, got {described(self.id)}"
            )
        if self.seconds is not None and not real(self.seconds, "seconds", 0, LONGEST_SECONDS):
            raise _core.ParameterError("seconds must be above 0, got 0: a deadline is counted from the job's acceptance")
        if len(self.parts) > 16:
            raise _core.ParameterError(f"parts must be the sizes of 1 to 16 tensors, got {len(self.parts)}")
        for size in self.parts:
            whole(size, "parts", 1)


@dataclass
class Job:
    """A job that was accepted, or whose request is being received."""

    spec: JobSpec
    owner: str
    request: Request  #: the request's bytes
    answer: Answer  #: the answer's bytes, once the job is done
    created: float  #: time of acceptance by the event loop's clock, which all times of a job use
    request_fields: dict[str, str] = field(default_factory=dict)  #: log fields of the request that submitted the job
    state: str = "receiving"  #: "receiving", then "queued", "running", and one of ENDS
    share: float = 0.0  #: completed share of the present stage, 0 to 1
    stage: str = ""
    error: BaseException | None = None
    attempts: int = 0
    ended: float | None = None
    engine: int | None = None
    timer: asyncio.TimerHandle | None = None
    version: int = 0  #: incremented by every change
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self) -> str:
        """The job's name among all clients' jobs."""
        return f"{self.owner}/{self.spec.id}"

    @property
    def group(self) -> str | None:
        """The batch group of the job. The group is None if the job is computed alone, for example after an engine ended
        during the job.

        """
        return group_of(self.spec.kind, self.spec.model) if self.spec.kind.is_batched and not self.attempts else None

    def change(self, state: str | None = None) -> None:
        """Wakes waiting calls, after a change of the state if a new state is given."""
        self.state = state or self.state
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float, seen: int | None = None) -> None:
        """Waits until the job ends or changes from version `seen`, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.state not in ENDS and seen in (None, self.version):
                    await self._changed.wait()
        except TimeoutError:
            pass


def group_of(kind: JobKind, model: str) -> str:
    """Returns the group of jobs of one kind and table."""
    return f"{kind.name}:{model}"


class Queue:
    """Queued jobs. Clients take turns (round-robin), and each client's jobs stay in order, so that many jobs of one client
    do not delay another's single job.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Job]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, job: Job, first: bool = False) -> None:
        """Appends a job to its client's jobs, or puts it first if an engine lost the job."""
        own = self._waiting.setdefault(job.owner, deque())
        if first:
            own.appendleft(job)
        else:
            own.append(job)

    def take(self, group: str | None = None, without: Container[str] = ()) -> Job | None:
        """Takes the next job, of the client in turn. `group` skips clients whose next job is of another group; `without`
        skips clients whose next job is for one of these models.

        """
        for owner, own in list(self._waiting.items()):
            if own and ((group is not None and own[0].group != group) or own[0].spec.model in without):
                continue
            del self._waiting[owner]
            if own:
                job = own.popleft()
                if own:
                    self._waiting[owner] = own  # other clients' jobs come before this client's next job
                return job
        return None

    def remove(self, job: Job) -> None:
        """Removes a job."""
        own = self._waiting.get(job.owner)
        if own is not None and job in own:
            own.remove(job)

    def jobs(self) -> list[Job]:
        """Returns all queued jobs."""
        return [job for own in self._waiting.values() for job in own]
