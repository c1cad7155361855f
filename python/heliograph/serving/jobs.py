"""Jobs: what a client asked to have computed, and the queue in which they wait."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from heliograph import _core
from heliograph.serving.numeric import real, whole
from heliograph.serving.spool import Answer, Request

JOB_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
#: States of a job, in their order; the last three are ends.
ENDS = ("done", "failed", "cancelled")
#: Kinds of jobs whose request and time are their model's, or their table's.
COMPUTED = ("run", "get", "nearest")
LONGEST_SECONDS = 1e9  #: of a deadline, and of a wait
#: Kinds of jobs that wait for one table and are answered together, whoever asks.
TOGETHER = ("get", "nearest")


@dataclass(frozen=True)
class Asked:
    """What a client asks for: an answer of a model to a request, a session (that keys fit a model, and are at hand), an answer
    of an encrypted table to a query, of a table in clear to a private question, or the scores of vectors.
    """

    id: str  #: the client's own: the same id is the same job, which is computed once
    kind: str  #: "run", "session", "sql", "get" or "nearest"
    keys: str  #: the digest of evaluation keys; of look-ups ""
    model: str = ""  #: its name, or a table's in clear; of queries ""
    table: str = ""  #: the digest of an encrypted table; but for queries ""
    parts: tuple[int, ...] = ()  #: bytes of each tensor of the request, in their order
    seconds: float | None = None  #: until when it is wanted, from its acceptance
    watch: bool = False  #: whether somebody looks at its progress

    @property
    def subject(self) -> tuple[object, ...]:
        """What a repeated request of the same id must ask for again, besides its bytes."""
        return self.kind, self.keys, self.model, self.table, self.parts

    def __post_init__(self) -> None:
        if not JOB_ID.fullmatch(self.id):
            raise _core.ParameterError("a job's id is 16 to 64 letters, digits, dashes and underscores")
        if self.seconds is not None and not real(self.seconds, "seconds", 0, LONGEST_SECONDS):
            raise _core.ParameterError("seconds must be above 0, got 0: a deadline is counted from the job's acceptance")
        if len(self.parts) > 16:
            raise _core.ParameterError(f"parts must be the sizes of 1 to 16 tensors, got {len(self.parts)}")
        for size in self.parts:
            whole(size, "parts", 1)


@dataclass
class Job:
    """One that was accepted, or is being received."""

    asked: Asked
    owner: str
    request: Request  #: its bytes
    answer: Answer  #: its answer's bytes, once it is done
    created: float  #: by the loop's clock, as all times here
    request_fields: dict[str, str] = field(default_factory=dict)  #: of the request that brought it, for the log
    state: str = "receiving"  #: then "queued", "running", and one of ENDS
    share: float = 0.0  #: done of its present stage, 0 to 1
    stage: str = ""
    error: BaseException | None = None
    attempts: int = 0
    ended: float | None = None
    engine: int | None = None
    timer: asyncio.TimerHandle | None = None
    version: int = 0  #: rises with every change
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self) -> str:
        """Its name among all clients' jobs."""
        return f"{self.owner}/{self.asked.id}"

    @property
    def group(self) -> str | None:
        """Those that it may be answered with are of the same. None: it is computed alone, as what an engine has ended at once is."""
        return group_of(self.asked.kind, self.asked.model) if self.asked.kind in TOGETHER and not self.attempts else None

    @property
    def ended_well(self) -> bool:
        """Whether there is an answer."""
        return self.state == "done"

    def change(self, state: str | None = None) -> None:
        """Tells those who wait."""
        self.state = state or self.state
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float, seen: int | None = None) -> None:
        """Until it ends, or changes from version `seen`; so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                while self.state not in ENDS and seen in (None, self.version):
                    await self._changed.wait()
        except TimeoutError:
            pass


def group_of(kind: str, model: str) -> str:
    """Of jobs of a kind for one table."""
    return f"{kind}:{model}"


class Queue:
    """Jobs that wait: each client's in their order, clients in turn, so that many of one do not hold up another's only one."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Job]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, job: Job, first: bool = False) -> None:
        """Last of its client's, or first: one that an engine lost."""
        mine = self._waiting.setdefault(job.owner, deque())
        if first:
            mine.appendleft(job)
        else:
            mine.append(job)

    def take(self, group: str | None = None, without: Container[str] = ()) -> Job | None:
        """The next one, of the client whose turn it is; with `group` of those clients alone whose next one is of it, and without
        those whose next one is for a model of `without`.
        """
        for owner, mine in list(self._waiting.items()):
            if mine and ((group is not None and mine[0].group != group) or mine[0].asked.model in without):
                continue
            del self._waiting[owner]
            if mine:
                job = mine.popleft()
                if mine:
                    self._waiting[owner] = mine  # at the end: others come before its next
                return job
        return None

    def remove(self, job: Job) -> None:
        """One that is not wanted any more."""
        mine = self._waiting.get(job.owner)
        if mine is not None and job in mine:
            mine.remove(job)

    def jobs(self) -> list[Job]:
        """All of them."""
        return [job for mine in self._waiting.values() for job in mine]
