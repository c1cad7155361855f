"""Buffers of requests until an engine has read them, and of answers until they expire: in memory, then in files."""

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
from heliograph._common.service.errors import QuotaError
from heliograph.serving.disks import DISK_FULL, disk_errors

#: Type of the callbacks of `Body.pour`.
Write = Callable[[memoryview | bytes], None]
Place = Callable[[], memoryview]
Placed = Callable[[int], None]

_MAPPED = 32 << 20  # total bytes of requests that this process maps to receive into; further requests use `write`
_SPARE = 32 << 20  # bytes of spare memory, retained for requests of the same sizes
_MAX_SPARE_ANSWERS = 4  # spare buffers for answers
_LARGEST_IN_MEMORY = 4 << 20  # bytes; largest answer that an engine passes in memory
_READ_BYTES = 1 << 20  # bytes of one direct read


class Body:
    """A request's body as pieces. An interface that can receive without intermediate copies overrides `pour`."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def pour(self, write: Write, place: Place | None = None, placed: Placed | None = None) -> None:
        """Passes the whole body to `write` in pieces; `write` must not keep them. Raises the exceptions of `write`.

        With `place`, an implementation may instead read into the memory that `place` returns, and report the number of bytes
        to `placed`.
        """
        async for piece in self:
            write(piece)


class Memory:
    """Anonymous memory that another process opens by `path`, so that no disk is involved.

    If `nbytes` is given, the size of the memory is fixed, so that engines may map the memory while it is written. `mapped`:
    this process maps the memory too. Raises OSError.
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
        """Returns the memory from `start` on; None if bytes must be passed to `write`."""
        return None if self._map is None else memoryview(self._map)[start : start + _READ_BYTES]

    def write(self, data: memoryview, start: int) -> int:
        """Writes `data` at `start`. Returns how many bytes were written."""
        return os.pwrite(self._descriptor, data, start)

    def read(self, nbytes: int) -> bytes:
        """Returns the first `nbytes` bytes."""
        return os.pread(self._descriptor, nbytes, 0)

    @property
    def mapped(self) -> int:
        """Bytes that this process maps."""
        return 0 if self._map is None else self.nbytes

    def size(self) -> int:
        """Returns the size of the written bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Frees the memory."""
        if self._map is not None:
            with contextlib.suppress(BufferError):  # a view of the memory still exists; the mapping ends with the view
                self._map.close()
        os.close(self._descriptor)


class Request:
    """A request's bytes, written by the service and read by an engine by `path`. `sha` is the digest of the bytes so far."""

    def __init__(self, spool: Spool, owner: str, nbytes: int, file: Path) -> None:
        self.owner, self.nbytes, self._spool, self._file = owner, nbytes, spool, file
        self.have, self._descriptor, self.sha = 0, -1, hashlib.sha256()
        self._memory = spool._allocate(owner, nbytes)
        if self._memory is None:
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.path = str(file) if self._memory is None else self._memory.path
        self.in_memory = self._memory is not None

    def place(self) -> memoryview:
        """Returns the memory for the next bytes; empty if the bytes must be passed to `write`. Report the bytes written
        there by `placed`.

        """
        found = None if self._memory is None else self._memory.place(self.have)
        return memoryview(b"") if found is None else found

    def placed(self, count: int) -> None:
        """Records that `count` bytes were written to the memory of `place`."""
        self.sha.update(self.place()[:count])
        self.have += count

    def write(self, data: memoryview | bytes | bytearray) -> None:
        """Appends bytes. Raises QuotaError if the disk is full, DamagedFileError for more bytes than announced."""
        view = memoryview(data)
        if self.have + len(view) > self.nbytes:
            raise _core.DamagedFileError(f"the request's body must have {self.nbytes:,} bytes, got more; send it again")
        self.sha.update(view)
        with disk_errors():
            while view:
                done = os.write(self._descriptor, view) if self._memory is None else self._memory.write(view, self.have)
                if not done:
                    raise QuotaError(DISK_FULL)
                self.have += done
                view = view[done:]

    def close(self, read: bool = False) -> None:
        """Frees the request. `read`: an engine has read the whole request, so that the memory can be reused."""
        memory, self._memory = self._memory, None
        descriptor, self._descriptor = self._descriptor, -1
        if memory is not None:
            self._spool._return_memory(self.owner, memory, read)
        elif descriptor >= 0:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


class Answer:
    """An answer's bytes. An engine writes the bytes to `output_path`; `take` then moves the bytes to this process, or leaves
    them in their file.

    """

    def __init__(self, spool: Spool, expected: int | None, file: Path) -> None:
        self._spool, self._expected, self._file = spool, expected, file
        self._memory: Memory | None = None
        self._data: bytes | None = None
        self.nbytes = 0

    def output_path(self) -> str:
        """Returns the path to which an engine writes until `take` or `release`; until then no other process uses the memory.
        Raises OSError.

        """
        if self._memory is None:
            self._memory = self._spool._answer_memory(self._expected)
        return str(self._file) if self._memory is None else self._memory.path

    @property
    def is_shared(self) -> bool:
        """Whether an engine may still write to the memory."""
        return self._memory is not None

    def take(self, nbytes: int) -> None:
        """Takes over the `nbytes` that the engine has written. Raises OutOfMemoryError; DeviceError if the engine has
        written fewer bytes.

        """
        memory, self.nbytes = self._memory, nbytes
        if memory is None:
            return
        try:
            self._data = memory.read(nbytes)
        except MemoryError:
            raise _core.OutOfMemoryError(
                f"the service has no memory for an answer of {nbytes:,} bytes; retry later"
            ) from None
        finally:
            self.release()
        if len(self._data) != nbytes:
            raise _core.DeviceError(
                f"the engine must write an answer of {nbytes:,} bytes, got {len(self._data):,}, which is less"
            )
        self._spool._add_answer(self)

    def release(self) -> None:
        """Takes the memory back after the engine has ended the job, or has ended itself."""
        if self._memory is not None:
            self._spool._return_answer_memory(self._memory)
            self._memory = None

    @property
    def data(self) -> bytes | None:
        """The whole answer; None if the answer is in its file."""
        return self._data

    def read(self) -> bytes:
        """Returns the whole answer, from memory or its file. Raises OSError."""
        return self._file.read_bytes() if self._data is None else self._data

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """Yields the answer in pieces of at most `most` bytes. Raises OSError."""
        if (data := self._data) is not None:
            for start in range(0, len(data), most):
                yield data[start : start + most]
            return
        with self._file.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, most):
                yield piece

    def save(self) -> None:
        """Writes the answer to its file, on another thread. Raises OSError."""
        if (data := self._data) is not None:
            self._file.write_bytes(data)

    def saved(self) -> None:
        """Frees the answer's memory, after `save`."""
        if self._data is None:  # the answer was closed while it was saved
            self._file.unlink(missing_ok=True)
        self._spool._remove_answer(self)
        self._data = None

    def close(self) -> None:
        """Frees the answer."""
        if self._data is None:
            self._file.unlink(missing_ok=True)
        self._spool._remove_answer(self)
        self._data = None


class Spool:
    """Allocates requests and answers. `memory` limits the bytes of requests in memory, half of it for one client; `answers`
    limits the bytes of answers in memory."""

    def __init__(self, memory: int, answers: int = 0) -> None:
        self.memory, self.used = memory, 0
        self._used_by: dict[str, int] = {}
        self.most_answers, self.answers = answers, 0
        self._mapped = 0
        self._spare: OrderedDict[int, list[Memory]] = OrderedDict()  # unused memory by size; the size freed last is last
        self._spare_answers: list[Memory] = []
        self._in_memory: OrderedDict[Answer, None] = OrderedDict()

    def take(self, owner: str, nbytes: int, file: Path) -> Request:
        """Returns a buffer for a client's request of `nbytes` bytes; if the request is not in memory, the buffer is the file
        `file`. Raises QuotaError, OSError.

        """
        with disk_errors():
            return Request(self, owner, nbytes, file)

    def answer(self, expected: int | None, file: Path) -> Answer:
        """Returns a buffer for an answer of about `expected` bytes (None: unknown). If the answer is not in memory, or is
        moved to the disk later, the file is `file`.

        Raises QuotaError if the disk has no room for the answer, even if the answer is in memory: it may have to be moved to
        the disk.
        """
        with disk_errors():
            disk = os.statvfs(file.parent)
        if disk.f_bavail * disk.f_frsize < (1 if expected is None else expected):
            raise QuotaError(DISK_FULL)
        return Answer(self, expected, file)

    def oldest(self) -> Answer | None:
        """Returns the answer to move to a file next; None while answers use less than half of their memory."""
        return next(iter(self._in_memory), None) if 2 * self.answers > self.most_answers else None

    def sweep(self) -> None:
        """Frees the spare memory."""
        for memories in self._spare.values():
            for memory in memories:
                self._free(memory)
        self._spare.clear()

    # Requests

    def _allocate(self, owner: str, nbytes: int) -> Memory | None:
        own = self._used_by.get(owner, 0) + nbytes
        if self.used + nbytes > self.memory or 2 * own > self.memory:
            return None
        spare = self._spare.get(nbytes)
        memory = spare.pop() if spare else self._new_memory(nbytes)
        if not spare:
            self._spare.pop(nbytes, None)
        self.used += nbytes
        self._used_by[owner] = own
        return memory

    def _new_memory(self, nbytes: int) -> Memory:
        memory = Memory(nbytes, self._mapped + nbytes <= _MAPPED)
        self._mapped += memory.mapped
        return memory

    def _free(self, memory: Memory) -> None:
        self._mapped -= memory.mapped
        memory.close()

    def _return_memory(self, owner: str, memory: Memory, read: bool) -> None:
        self.used -= memory.nbytes
        self._used_by[owner] -= memory.nbytes
        if not self._used_by[owner]:
            del self._used_by[owner]
        if not read or not 0 < memory.nbytes <= _SPARE:
            self._free(memory)
            return
        self._spare.setdefault(memory.nbytes, []).append(memory)
        self._spare.move_to_end(memory.nbytes)
        while sum(size * len(memories) for size, memories in self._spare.items()) > _SPARE:
            size, memories = next(iter(self._spare.items()))
            self._free(memories.pop(0))
            if not memories:
                del self._spare[size]

    # Answers

    def _answer_memory(self, expected: int | None) -> Memory | None:
        if expected is None or expected > _LARGEST_IN_MEMORY or self.answers + expected > self.most_answers:
            return None
        return self._spare_answers.pop() if self._spare_answers else Memory()

    def _return_answer_memory(self, memory: Memory) -> None:
        if len(self._spare_answers) < _MAX_SPARE_ANSWERS and memory.size() <= _LARGEST_IN_MEMORY:
            self._spare_answers.append(memory)
        else:
            memory.close()

    def _add_answer(self, answer: Answer) -> None:
        self._in_memory[answer] = None
        self.answers += answer.nbytes

    def _remove_answer(self, answer: Answer) -> None:
        if self._in_memory.pop(answer, self) is None:
            self.answers -= answer.nbytes
