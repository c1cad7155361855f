"""Emulates hosts connected by links of a given speed on one machine: network namespaces whose links end in a user-space switch.

    python -m benchmarks.runners.hosts --count 4 --gigabits 1 --delay-ms 1 --command 'ping -c 3 {0}'   # needs root, ip and /dev/net/tun

The kernel of a small machine often has no netem, and tbf delays nothing. So the switch is a process in user space that holds
one TAP device per host. A frame leaves a host at the link's rate, arrives `delay` seconds later, and enters the other host
at the link's rate. No frame is lost. The rate counts the bytes on the wire: 24 bytes per frame for preamble, check sum and
gap, and the headers of every segment (the kernel delivers segments of one stream together). The switch takes processor time
from the hosts, so the actual rate of a link is measured, not assumed (benchmarks/runners/slow_network.py). When its standard
input ends, the switch kills all processes on the hosts and removes the hosts: also after a failure, or if its parent was
killed.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runners import common

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TAP, NO_PACKET_INFO, WITH_OFFLOADS = 0x0002, 0x1000, 0x4000
CHECKSUMS_AND_SEGMENTS = 0x1 | 0x2 | 0x4  # TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6
HEADER = struct.Struct("<BBHHHH")  # struct virtio_net_hdr
BESIDE_A_FRAME = 24  # bytes: preamble, check sum, gap
LARGEST = HEADER.size + 14 + (1 << 16)
IN_ONE_GO = 16  # maximum number of frames that the switch takes from one host before the others


@dataclass(frozen=True)
class Link:
    """The link between each host and the switch. `bits_a_second` 0: the hosts are this machine, connected by loopback."""

    name: str
    bits_a_second: float = 0
    delay_s: float = 0


class Hosts:
    """Names and addresses of the hosts on which ranks run."""

    def __init__(self, names: list[str], addresses: list[str]) -> None:
        self.names, self.addresses = names, addresses

    def command(self, host: int, command: list[str]) -> list[str]:
        """Returns a command line that runs a command on a host, with that host's name."""
        name = self.names[host]
        if not name:
            return command
        inside = 'hostname "$0" && exec "$@"'
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", inside, name, *command]


def loopback(count: int) -> Hosts:
    """Returns hosts that are all this machine, on loopback."""
    return Hosts([""] * count, ["127.0.0.1"] * count)


def reason_for_none() -> str | None:
    """Returns the reason why this machine cannot emulate hosts, or None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]:
        return f"the tool {missing[0]} is not installed"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun does not exist"
    name = f"hgtry{os.getpid()}"
    for line in (f"netns add {name}", f"netns del {name}"):
        done = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"network namespaces are not permitted here: {done.stderr.strip()}"
    return None


@contextmanager
def joined(count: int, link: Link) -> Iterator[Hosts]:
    """Creates `count` hosts connected by links of the kind `link`; removes them afterwards, with all their processes."""
    if not link.bits_a_second:
        yield loopback(count)
        return
    mark = os.getpid() % 100000
    names = [f"hg{mark}{'abcdefghijklmnop'[k]}" for k in range(count)]
    network = f"10.{210 + mark % 40}.{mark // 40 % 250}"
    addresses = [f"{network}.{k + 1}" for k in range(count)]
    words = [f"{link.bits_a_second:.0f}", f"{link.delay_s * 1e9:.0f}", network, *names]
    command = [*common.module("runners.hosts"), "--switch", *words]
    with subprocess.Popen(
        command, cwd=common.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as switch:
        assert switch.stdin is not None
        assert switch.stdout is not None
        try:
            if switch.stdout.readline() != "ready\n":
                raise SystemExit("the switch of the hosts did not start")
            yield Hosts(names, addresses)
        finally:
            switch.stdin.close()
            switch.wait(60)


# ---- the switch, a separate process


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)


def _cable(name: str, number: int, network: str) -> int:
    """Creates a host and returns the descriptor of its TAP device."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", f"t{name}".encode(), TAP | NO_PACKET_INFO | WITH_OFFLOADS))
    fcntl.ioctl(fd, TUNSETOFFLOAD, CHECKSUMS_AND_SEGMENTS)
    _ip(f"netns add {name}")
    _ip(f"link set t{name} address 02:00:00:00:00:{number:02x}")
    _ip(f"link set t{name} netns {name}")
    _ip(f"-n {name} link set t{name} name eth0")
    _ip(f"-n {name} link set eth0 mtu 1500 txqueuelen 1000 up")
    _ip(f"-n {name} link set lo up")
    _ip(f"-n {name} addr add {network}.{number + 1}/24 dev eth0")
    return fd


def wire_bytes(frame: bytes) -> int:
    """Returns the bytes on the wire of a frame from the kernel, which starts with a virtio header of offloads."""
    _, kind, headers, segment, _, _ = HEADER.unpack_from(frame)
    size = len(frame) - HEADER.size
    segments = -(-(size - headers) // segment) if kind and segment else 1
    return size + (segments - 1) * headers + segments * BESIDE_A_FRAME


class Switch:
    """Frames in transit: first queued at the sender's link, then at the receiver's."""

    def __init__(self, cables: list[int], nanoseconds_a_byte: float, delay: int) -> None:
        self.cables, self.nanoseconds_a_byte, self.delay = cables, nanoseconds_a_byte, delay
        self.sends_until = [0.0] * len(cables)  # time at which a host's link will have sent its queued frames
        self.receives_until = [0.0] * len(cables)
        self.events: list[
            tuple[float, int, int, bool, bytes]
        ] = []  # time, sequence number, receiver, whether the frame has arrived, frame
        self.number = 0

    def take(self, source: int, frame: bytes, now: float) -> None:
        """Queues a frame from a host."""
        begins = max(now, self.sends_until[source])
        self.sends_until[source] = begins + self._takes(frame)
        several, other = frame[HEADER.size] & 1, frame[HEADER.size + 5]  # the last byte of the destination's MAC address
        for target in range(len(self.cables)) if several else [other]:
            if target != source and target < len(self.cables):
                self._push(begins, target, False, frame)

    def deliver(self, now: float) -> float | None:
        """Delivers arrived frames. Returns the time of the next event, None without frames in transit."""
        while self.events and self.events[0][0] <= now:
            begins, _, target, arrived, frame = heapq.heappop(self.events)
            # The frame's first bit reaches the receiver's link. Only at this time all frames that reached this link earlier
            # are known.
            if not arrived:
                at = max(begins + self.delay, self.receives_until[target]) + self._takes(frame)
                self.receives_until[target] = at
                self._push(at, target, True, frame)
                continue
            try:
                os.write(self.cables[target], frame)
            except OSError:  # the receiving host's device is down
                continue
        return self.events[0][0] if self.events else None

    def _takes(self, frame: bytes) -> float:
        return wire_bytes(frame) * self.nanoseconds_a_byte

    def _push(self, at: float, target: int, arrived: bool, frame: bytes) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, target, arrived, frame))

    def run(self, until: int) -> None:
        """Switches frames until end of file on the descriptor `until`."""
        number_of = {fd: k for k, fd in enumerate(self.cables)}
        while True:
            due = self.deliver(time.monotonic_ns())
            left = None if due is None else max(0.0, (due - time.monotonic_ns()) / 1e9)
            ready, _, _ = select.select([until, *self.cables], [], [], left)
            for fd in ready:
                if fd == until:
                    if not os.read(until, 1):
                        return
                    continue
                for _ in range(IN_ONE_GO):
                    try:
                        self.take(number_of[fd], os.read(fd, LARGEST), time.monotonic_ns())
                    except OSError:  # no more frames are queued
                        break


def _end(names: list[str]) -> None:
    """Kills all processes on the hosts, then removes the hosts."""
    for _ in range(50):
        running = []
        for name in names:
            done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            running += [int(word) for word in done.stdout.split()]
        for process in running:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not running:
            break
        time.sleep(0.1)
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def switch(words: list[str]) -> None:
    """Runs the switch process. Arguments: bits per second, nanoseconds of delay, the network, names of the hosts."""
    rate, delay, network, names = float(words[0]), int(words[1]), words[2], words[3:]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the switch ends when its standard input ends
    try:
        cables = [_cable(name, number, network) for number, name in enumerate(names)]
        print("ready", flush=True)
        Switch(cables, 8e9 / rate, delay).run(sys.stdin.fileno())
    finally:
        _end(names)


def main() -> int:
    """Runs a command on the first host; {0}, {1}... in it are the hosts' addresses."""
    if sys.argv[1:2] == ["--switch"]:
        switch(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--gigabits", type=float, default=1)
    parser.add_argument("--delay-ms", type=float, default=1)
    parser.add_argument("--command", required=True)
    options = parser.parse_args()
    if reason := reason_for_none():
        raise SystemExit(reason)
    with joined(options.count, Link("", options.gigabits * 1e9, options.delay_ms / 1e3)) as hosts:
        command = hosts.command(0, ["sh", "-c", options.command.format(*hosts.addresses)])
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
