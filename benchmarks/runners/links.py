"""Measures the links between hosts over TCP, as ranks use it, with one process on each host.

    python -m benchmarks.runners.links RANK PORT ADDRESS...     # on every host; rank 0 prints JSON

Measures the round trip of one byte; the rate of one stream from host 1 to host 0; the rate at which each host receives while every host
sends to all others.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import threading
import time

SECONDS = 1.5  #: duration of a stream in seconds
PIECE = 1 << 17
END = 0xFF  #: value of the first byte of the last piece


def _whole(stream: socket.socket, count: int) -> None:
    """Receives exactly `count` bytes."""
    while count:
        got = len(stream.recv(min(count, PIECE)))
        if not got:
            raise SystemExit("a host closed its connection")
        count -= got


def _meet(rank: int, port: int, addresses: list[str]) -> dict[int, socket.socket]:
    """Connects to every other host: this host connects to those of lower number."""
    with socket.create_server((addresses[rank], port + rank), backlog=len(addresses)) as server:
        found: dict[int, socket.socket] = {}
        for other in range(rank):
            end = time.monotonic() + 20
            while other not in found:
                try:
                    found[other] = socket.create_connection((addresses[other], port + other), timeout=5)
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
            found[other].sendall(bytes([rank]))
        while len(found) < len(addresses) - 1:
            stream, _ = server.accept()
            found[stream.recv(1)[0]] = stream
    for stream in found.values():
        stream.settimeout(60)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _barrier(rank: int, streams: dict[int, socket.socket]) -> None:
    """Waits until all hosts have reached this point."""
    for other in sorted(streams) if rank == 0 else [0]:
        if rank:
            streams[other].sendall(b"b")
        _whole(streams[other], 1)
    if rank == 0:
        for stream in streams.values():
            stream.sendall(b"g")


def round_trip(rank: int, streams: dict[int, socket.socket]) -> float:
    """Returns the median round trip of one byte between hosts 0 and 1."""
    times = []
    for _ in range(50):
        if rank == 0:
            begin = time.perf_counter()
            streams[1].sendall(b"p")
            _whole(streams[1], 1)
            times.append(time.perf_counter() - begin)
        elif rank == 1:
            _whole(streams[0], 1)
            streams[0].sendall(b"p")
    return statistics.median(times) if times else 0.0


def _send(stream: socket.socket) -> None:
    """Sends pieces of data for SECONDS."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        stream.sendall(bytes(PIECE))
    stream.sendall(bytes([END]) + bytes(PIECE - 1))


def _receive(stream: socket.socket, counts: list[float]) -> None:
    """Receives data up to the last piece and appends the rate in bytes per second to `rates`."""
    piece, got, begin = memoryview(bytearray(PIECE)), 0, time.perf_counter()
    while True:
        at = got % PIECE
        now = stream.recv_into(piece[at:])
        if not now:
            raise SystemExit("a host closed its connection")
        got += now
        if got % PIECE == 0 and piece[0] == END:
            counts.append(got / (time.perf_counter() - begin))
            return


def streams_at_once(rank: int, streams: dict[int, socket.socket], pairs: list[tuple[int, int]]) -> float:
    """Returns the bytes per second that this host receives while the pairs (from, to) send."""
    counts: list[float] = []
    threads = [threading.Thread(target=_send, args=(streams[to],)) for begin, to in pairs if begin == rank]
    threads += [threading.Thread(target=_receive, args=(streams[begin], counts)) for begin, to in pairs if to == rank]
    _barrier(rank, streams)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _barrier(rank, streams)
    return sum(counts)


def main() -> None:
    """Measures; rank 0 prints the result."""
    rank, port, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    streams = _meet(rank, port, addresses)
    hosts = range(len(addresses))
    trip = round_trip(rank, streams)
    alone = streams_at_once(rank, streams, [(1, 0)])
    together = streams_at_once(rank, streams, [(a, b) for a in hosts for b in hosts if a != b])
    if rank == 0:
        print(json.dumps({"round_trip_s": trip, "stream_bytes_s": alone, "received_by_each_bytes_s": together}))


if __name__ == "__main__":
    main()
