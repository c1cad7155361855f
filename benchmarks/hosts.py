"""Hosts that a link of a given speed joins, on one machine: network namespaces whose cables end in a switch of this file.

    python benchmarks/hosts.py --count 4 --gigabits 1 --delay-ms 1 --command 'ping -c 3 {0}'   # needs root, ip and /dev/net/tun

The kernel of a small machine often has no netem, and tbf delays nothing. So the switch runs in user space: a process that holds one
TAP device of each host. A frame leaves a host at the link's rate, arrives `delay` seconds later, and enters the other host at the
link's rate. No frame is lost. The rate counts what Ethernet sends: 24 bytes besides each frame, and the headers of every segment
(the kernel hands over segments of one stream together). The switch takes processor time from the hosts; what a link then carries is
measured, not assumed (benchmarks/slow_network.py). When its standard input ends, the switch ends everything that runs on the hosts
and removes them: also after a failure, or when whoever started it was killed.
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

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TAP, NO_PACKET_INFO, WITH_OFFLOADS = 0x0002, 0x1000, 0x4000
CHECKSUMS_AND_SEGMENTS = 0x1 | 0x2 | 0x4  # TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6
HEADER = struct.Struct("<BBHHHH")  # struct virtio_net_hdr
BESIDE_A_FRAME = 24  # bytes: preamble, check sum, gap
LARGEST = HEADER.size + 14 + (1 << 16)
IN_ONE_GO = 16  # frames of one host before the others'


@dataclass(frozen=True)
class Link:
    """What joins each host with the switch. `bits_a_second` 0: the hosts are this machine, joined by loopback."""

    name: str
    bits_a_second: float = 0
    delay_s: float = 0


class Hosts:
    """Where ranks run: the name and address of each host."""

    def __init__(self, names: list[str], addresses: list[str]) -> None:
        self.names, self.addresses = names, addresses

    def command(self, host: int, command: list[str]) -> list[str]:
        """A command as it is started on a host, under that host's name."""
        name = self.names[host]
        if not name:
            return command
        inside = 'hostname "$0" && exec "$@"'
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", inside, name, *command]


def loopback(count: int) -> Hosts:
    """So many hosts that are all this machine."""
    return Hosts([""] * count, ["127.0.0.1"] * count)


def reason_for_none() -> str | None:
    """Why no hosts can be made here; None where they can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if missing := [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]:
        return f"there is no {missing[0]}"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    name = f"hgtry{os.getpid()}"
    for line in (f"netns add {name}", f"netns del {name}"):
        done = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"network namespaces are not permitted here: {done.stderr.strip()}"
    return None


@contextmanager
def joined(count: int, link: Link) -> Iterator[Hosts]:
    """So many hosts joined by such links; gone afterwards, with all that runs there."""
    if not link.bits_a_second:
        yield loopback(count)
        return
    mark = os.getpid() % 100000
    names = [f"hg{mark}{'abcdefghijklmnop'[k]}" for k in range(count)]
    network = f"10.{210 + mark % 40}.{mark // 40 % 250}"
    addresses = [f"{network}.{k + 1}" for k in range(count)]
    words = [f"{link.bits_a_second:.0f}", f"{link.delay_s * 1e9:.0f}", network, *names]
    command = [sys.executable, str(Path(__file__).resolve()), "--switch", *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
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


# ---- the switch, a process of its own


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)


def _cable(name: str, number: int, network: str) -> int:
    """Makes a host and returns its TAP device's descriptor."""
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
    """What Ethernet sends for a frame as the kernel hands it over, with its header of offloads."""
    _, kind, headers, segment, _, _ = HEADER.unpack_from(frame)
    size = len(frame) - HEADER.size
    segments = -(-(size - headers) // segment) if kind and segment else 1
    return size + (segments - 1) * headers + segments * BESIDE_A_FRAME


class Switch:
    """Frames on their way: first in their host's line, then on the cable of the host that they are for."""

    def __init__(self, cables: list[int], nanoseconds_a_byte: float, delay: int) -> None:
        self.cables, self.nanoseconds_a_byte, self.delay = cables, nanoseconds_a_byte, delay
        self.sends_until = [0.0] * len(cables)  # when a host's line has sent what it was given
        self.receives_until = [0.0] * len(cables)
        self.events: list[tuple[float, int, int, bool, bytes]] = []  # when, a number, for whom, whether it has arrived
        self.number = 0

    def take(self, source: int, frame: bytes, now: float) -> None:
        """A frame that a host gives its line."""
        begins = max(now, self.sends_until[source])
        self.sends_until[source] = begins + self._takes(frame)
        several, other = frame[HEADER.size] & 1, frame[HEADER.size + 5]  # of the address that it is for
        for target in range(len(self.cables)) if several else [other]:
            if target != source and target < len(self.cables):
                self._push(begins, target, False, frame)

    def deliver(self, now: float) -> float | None:
        """Hands over what has arrived; when the next frame is to be seen to, None where none is on its way."""
        while self.events and self.events[0][0] <= now:
            begins, _, target, arrived, frame = heapq.heappop(self.events)
            if not arrived:  # its first bit leaves: only now is known what the receiver's line is given before
                at = max(begins + self.delay, self.receives_until[target]) + self._takes(frame)
                self.receives_until[target] = at
                self._push(at, target, True, frame)
                continue
            try:
                os.write(self.cables[target], frame)
            except OSError:  # that host's device is down
                continue
        return self.events[0][0] if self.events else None

    def _takes(self, frame: bytes) -> float:
        return wire_bytes(frame) * self.nanoseconds_a_byte

    def _push(self, at: float, target: int, arrived: bool, frame: bytes) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, target, arrived, frame))

    def run(self, until: int) -> None:
        """Goes on until that descriptor has ended."""
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
                    except OSError:  # nothing more
                        break


def _end(names: list[str]) -> None:
    """Whatever runs on the hosts, then the hosts."""
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
    """What the process of the switch does: bits a second, nanoseconds, the network, names."""
    rate, delay, network, names = float(words[0]), int(words[1]), words[2], words[3:]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with its standard input
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
