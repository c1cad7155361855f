"""Requests while they come and until they are read, answers until nobody asks for them: in memory, or beyond so many bytes in files."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import mmap
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from heliograph import _core
from heliograph.serving.disks import full_disks
from heliograph.serving.errors import QuotaError

_MAPPED = 32 << 20  # bytes of all requests that this process maps, to receive them where they are to lie; others are written
_SPARE = 32 << 20  # bytes of memory that is kept for requests of the same sizes
_SPARE_ROOMS = 4  # kept for answers
_LARGEST_ROOM = 4 << 20  # bytes of an answer that is passed in memory
_AT_A_TIME = 1 << 20  # bytes that are received at a time


class Body:
    """What a client sends, piece by piece. A face that can do without pieces in between has a `pour` of its own."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def pour(
        self,
        write: Callable[[memoryview | bytes], None],
        place: Callable[[], memoryview] | None = None,
        placed: Callable[[int], None] | None = None,
    ) -> None:
        """All of it through `write`, which keeps no piece. What that raises comes out.

        Where there is a `place`, a face may put what comes next there, and tell `placed` how many bytes: nothing is to be written then.
        """
        async for piece in self:
            write(piece)


class Memory:
    """Anonymous memory, which another process opens by `path`: written by no disk, which others may keep busy. With `nbytes` it
    has that size for good, so that engines may map it while it is written; `mapped`: this process does so, too. Raises OSError.
    """

    def __init__(self, nbytes: int | None = None, mapped: bool = False) -> None:
        self._descriptor = os.memfd_create("heliograph", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.path, self.nbytes = f"/proc/{os.getpid()}/fd/{self._descriptor}", nbytes or 0
        self._map: mmap.mmap | None = None
        try:
            if nbytes is not None:
                os.ftruncate(self._descriptor, nbytes)
                fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            if mapped and self.nbytes:
                self._map = mmap.mmap(self._descriptor, self.nbytes)
        except (OSError, ValueError):
            os.close(self._descriptor)
            raise

    def place(self, start: int) -> memoryview | None:
        """Where bytes from `start` on are to lie; None: they are to be written."""
        return None if self._map is None else memoryview(self._map)[start : start + _AT_A_TIME]

    def write(self, data: memoryview, start: int) -> int:
        """How many bytes of `data` it took."""
        return os.pwrite(self._descriptor, data, start)

    def read(self, nbytes: int) -> bytes:
        """Its first bytes."""
        return os.pread(self._descriptor, nbytes, 0)

    @property
    def mapped(self) -> int:
        """Bytes that this process maps."""
        return 0 if self._map is None else self.nbytes

    def size(self) -> int:
        """Of what was written."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Nobody uses it any more."""
        if self._map is not None:
            with contextlib.suppress(BufferError):  # somebody is still to let go of a piece, and it ends with that
                self._map.close()
        os.close(self._descriptor)


class Request:
    """A request's bytes, which one process writes and an engine reads by `path`; `sha` is of those that have come."""

    def __init__(self, spool: Spool, owner: str, nbytes: int, file: Path) -> None:
        self.owner, self.nbytes, self._spool, self._file = owner, nbytes, spool, file
        self.have, self._descriptor, self.sha = 0, -1, hashlib.sha256()
        self._memory = spool._taken(owner, nbytes)
        if self._memory is None:
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.path = str(file) if self._memory is None else self._memory.path
        self.in_memory = self._memory is not None

    def place(self) -> memoryview:
        """Where the next bytes may be put; empty where they are to be written. `placed` is told of them."""
        found = None if self._memory is None else self._memory.place(self.have)
        return memoryview(b"") if found is None else found

    def placed(self, count: int) -> None:
        """So many bytes lie where `place` said."""
        self.sha.update(self.place()[:count])
        self.have += count

    def write(self, data: memoryview | bytes | bytearray) -> None:
        """Goes on. Raises QuotaError where there is no room, DamagedFileError for more bytes than were announced."""
        view = memoryview(data)
        if self.have + len(view) > self.nbytes:
            raise _core.DamagedFileError(f"a request was to have {self.nbytes:,} bytes, and has more")
        self.sha.update(view)
        with full_disks():
            while view:
                done = os.write(self._descriptor, view) if self._memory is None else self._memory.write(view, self.have)
                if not done:
                    raise QuotaError("the service's disk is full")
                self.have += done
                view = view[done:]

    def close(self, read: bool = False) -> None:
        """Nobody reads it any more; `read`: an engine has done so to the end, and the memory is free for another."""
        memory, self._memory = self._memory, None
        descriptor, self._descriptor = self._descriptor, -1
        if memory is not None:
            self._spool._given_back(self.owner, memory, read)
        elif descriptor >= 0:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


class Answer:
    """An answer's bytes: an engine writes them where `lent` says, and says how many. Then they are this process's, or in a file."""

    def __init__(self, spool: Spool, expected: int | None, file: Path) -> None:
        self._spool, self._expected, self._file = spool, expected, file
        self._room: Memory | None = None
        self._data: bytes | None = None
        self.nbytes = 0

    def lent(self) -> str:
        """The path that an engine is to write to, until `take` or `release`: nobody else has that memory before. Raises OSError."""
        if self._room is None:
            self._room = self._spool._room(self._expected)
        return str(self._file) if self._room is None else self._room.path

    @property
    def is_lent(self) -> bool:
        """Whether an engine may still write to its memory."""
        return self._room is not None

    def take(self, nbytes: int) -> None:
        """The engine has written so many bytes. Raises OutOfMemoryError, DeviceError where that is not so."""
        room, self.nbytes = self._room, nbytes
        if room is None:
            return
        try:
            self._data = room.read(nbytes)
        except MemoryError:
            raise _core.OutOfMemoryError(f"no memory for an answer of {nbytes:,} bytes") from None
        finally:
            self.release()
        if len(self._data) != nbytes:
            raise _core.DeviceError("the engine wrote less of an answer than it said")
        self._spool._remembered(self)

    def release(self) -> None:
        """The engine has ended this job, or itself: it writes no more."""
        if self._room is not None:
            self._spool._room_back(self._room)
            self._room = None

    @property
    def data(self) -> bytes | None:
        """All of it; None where it lies in its file."""
        return self._data

    def read(self) -> bytes:
        """All of it, wherever it lies. Raises OSError."""
        return self._file.read_bytes() if self._data is None else self._data

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """So many bytes at a time. Raises OSError."""
        if (data := self._data) is not None:
            for start in range(0, len(data), most):
                yield data[start : start + most]
            return
        with self._file.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, most):
                yield piece

    def save(self) -> None:
        """Into its file, on another thread. Raises OSError."""
        if (data := self._data) is not None:
            self._file.write_bytes(data)

    def saved(self) -> None:
        """It is in its file, and leaves memory."""
        if self._data is None:  # it was closed meanwhile
            self._file.unlink(missing_ok=True)
        self._spool._forgotten(self)
        self._data = None

    def close(self) -> None:
        """Nobody asks for it any more."""
        if self._data is None:
            self._file.unlink(missing_ok=True)
        self._spool._forgotten(self)
        self._data = None


class Spool:
    """Makes them. `memory` is how many bytes of requests are held in memory at most, half of it for one client; `answers` of answers."""

    def __init__(self, memory: int, answers: int = 0) -> None:
        self.memory, self.held = memory, 0
        self._held_by: dict[str, int] = {}
        self.most_answers, self.answers = answers, 0
        self._mapped = 0
        self._spare: OrderedDict[int, list[Memory]] = OrderedDict()  # by size: what was given back last is last
        self._rooms: list[Memory] = []
        self._kept: OrderedDict[Answer, None] = OrderedDict()

    def take(self, owner: str, nbytes: int, file: Path) -> Request:
        """For a client's request of so many bytes; `file` is where it lies if not in memory. Raises QuotaError, OSError."""
        with full_disks():
            return Request(self, owner, nbytes, file)

    def answer(self, expected: int | None, file: Path) -> Answer:
        """For an answer of about so many bytes (None: nobody knows); `file` is where it lies if not in memory, or later.

        Raises QuotaError where the disk has no room for it, whether or not it is needed: memory may have to give the answer away.
        """
        with full_disks():
            room = os.statvfs(file.parent)
        if room.f_bavail * room.f_frsize < (1 if expected is None else expected):
            raise QuotaError("the service's disk is full")
        return Answer(self, expected, file)

    def oldest(self) -> Answer | None:
        """The answer that is to leave memory: None while less than half of what that may hold is there."""
        return next(iter(self._kept), None) if 2 * self.answers > self.most_answers else None

    def sweep(self) -> None:
        """What no request came for since is the system's again."""
        for memories in self._spare.values():
            for memory in memories:
                self._let_go(memory)
        self._spare.clear()

    # Requests

    def _taken(self, owner: str, nbytes: int) -> Memory | None:
        mine = self._held_by.get(owner, 0) + nbytes
        if self.held + nbytes > self.memory or 2 * mine > self.memory:
            return None
        spare = self._spare.get(nbytes)
        memory = spare.pop() if spare else self._made(nbytes)
        if not spare:
            self._spare.pop(nbytes, None)
        self.held += nbytes
        self._held_by[owner] = mine
        return memory

    def _made(self, nbytes: int) -> Memory:
        memory = Memory(nbytes, self._mapped + nbytes <= _MAPPED)
        self._mapped += memory.mapped
        return memory

    def _let_go(self, memory: Memory) -> None:
        self._mapped -= memory.mapped
        memory.close()

    def _given_back(self, owner: str, memory: Memory, read: bool) -> None:
        self.held -= memory.nbytes
        self._held_by[owner] -= memory.nbytes
        if not self._held_by[owner]:
            del self._held_by[owner]
        if not read or not 0 < memory.nbytes <= _SPARE:
            self._let_go(memory)
            return
        self._spare.setdefault(memory.nbytes, []).append(memory)
        self._spare.move_to_end(memory.nbytes)
        while sum(size * len(memories) for size, memories in self._spare.items()) > _SPARE:
            size, memories = next(iter(self._spare.items()))
            self._let_go(memories.pop(0))
            if not memories:
                del self._spare[size]

    # Answers

    def _room(self, expected: int | None) -> Memory | None:
        if expected is None or expected > _LARGEST_ROOM or self.answers + expected > self.most_answers:
            return None
        return self._rooms.pop() if self._rooms else Memory()

    def _room_back(self, room: Memory) -> None:
        if len(self._rooms) < _SPARE_ROOMS and room.size() <= _LARGEST_ROOM:
            self._rooms.append(room)
        else:
            room.close()

    def _remembered(self, answer: Answer) -> None:
        self._kept[answer] = None
        self.answers += answer.nbytes

    def _forgotten(self, answer: Answer) -> None:
        if self._kept.pop(answer, self) is None:
            self.answers -= answer.nbytes
