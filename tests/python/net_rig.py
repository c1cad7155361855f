"""Virtual hosts: network namespaces on one bridge, each with its own host name.

mpirun reaches the hosts by an agent that replaces ssh, or by ssh if sshd is installed. Then each host runs its own daemon.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AGENT = """#!/bin/sh
# HOST COMMAND...: the command on that host.
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1" && shift && eval "$*"' sh "$host" "$@"
"""


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)


def reason_for_none(*tools: str) -> str | None:
    """Returns the reason why this machine cannot make virtual hosts, or None if it can."""
    for tool in ("ip", "unshare", *tools):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    name = f"hgtry{os.getpid()}"
    try:
        _ip(f"link add {name} type bridge")
        _ip(f"link del {name}")
        _ip(f"netns add {name}")
        try:
            inside = ["ip", "netns", "exec", name, "unshare", "--uts", "hostname", name]
            subprocess.run(inside, check=True, capture_output=True, text=True)
        finally:
            _ip(f"netns del {name}")
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here: {error.stderr.strip()}"
    return None


class Hosts:
    """Names, addresses and links of running virtual hosts."""

    def __init__(self, names: list[str], links: dict[str, str], addresses: dict[str, str], agent: Path) -> None:
        self.names, self.links, self.addresses, self.agent = names, links, addresses, agent

    def environment(self) -> dict[str, str]:
        """Returns the environment variables that let mpirun reach the hosts."""
        return self.reached_by(str(self.agent))

    @staticmethod
    def reached_by(command: str) -> dict[str, str]:
        """Returns the variables that make mpirun run a command in place of ssh, for Open MPI 4 and 5."""
        return {"OMPI_MCA_plm_rsh_agent": command, "PRTE_MCA_plm_ssh_agent": command}

    def cut(self, name: str) -> None:
        """Takes a host's link down."""
        _ip(f"link set {self.links[name]} down")

    def join(self, name: str) -> None:
        """Takes a host's link up again."""
        _ip(f"link set {self.links[name]} up")

    def slow(self, name: str, rate: str) -> str | None:
        """Limits a host's traffic in both directions to a rate such as "8kbit". Returns the reason if the kernel does not
        support this."""
        for words in (["dev", self.links[name]], ["netns", name, "dev", "eth0"]):
            command = ["tc", *(["-n", name] if words[0] == "netns" else []), "qdisc", "add", *words[-2:]]
            if told := _refusal([*command, *f"root tbf rate {rate} burst 1600 latency 2s".split()]):
                return told
        return None

    def lossy(self, name: str, share: float) -> str | None:
        """Drops this fraction of a host's incoming packets and delays the rest. Returns the reason if the kernel does not
        support this.

        """
        netem = f"tc qdisc add dev {self.links[name]} root netem delay 30ms 10ms loss {100 * share:g}%"
        if not (told := _refusal(netem.split())):
            return None
        drop = f"iptables -A INPUT -m statistic --mode random --probability {share:g} -j DROP"
        return _refusal(["ip", "netns", "exec", name, *drop.split()]) and told

    def counted(self, name: str) -> tuple[int, int]:
        """Returns the numbers of bytes and packets that have crossed a host's link in both directions."""
        folder = Path("/sys/class/net") / self.links[name] / "statistics"
        read = {what: int((folder / what).read_text()) for what in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")}
        return read["rx_bytes"] + read["tx_bytes"], read["rx_packets"] + read["tx_packets"]

    def processes(self) -> list[int]:
        """Returns the ids of the processes on all hosts."""
        found = []
        for name in self.names:
            done = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True)
            found += [int(word) for word in done.stdout.split()]
        return found


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[Hosts]:
    """Makes `count` hosts; at exit, removes the hosts and ends their processes."""
    mark = f"{os.getpid() % 100000}"
    bridge, names = f"hgb{mark}", [f"hg{mark}{'abcdefgh'[k]}" for k in range(count)]
    links = {name: f"v{name}" for name in names}
    agent = folder / "agent.sh"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    network = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
    made = Hosts(names, links, {name: f"{network}.{number}" for number, name in enumerate(names, 1)}, agent)
    try:
        _ip(f"link add {bridge} type bridge")
        _ip(f"addr add {network}.254/24 dev {bridge}")
        _ip(f"link set {bridge} up")
        for name in names:
            _ip(f"netns add {name}")
            _ip(f"link add {links[name]} type veth peer name eth0 netns {name}")
            _ip(f"link set {links[name]} master {bridge}")
            _ip(f"link set {links[name]} up")
            _ip(f"-n {name} link set lo up")
            _ip(f"-n {name} addr add {made.addresses[name]}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")
        yield made
    finally:
        _remove(made, bridge)


def _remove(made: Hosts, bridge: str) -> None:
    there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.split()
    made.names = [name for name in made.names if name in there]
    for _ in range(20):
        running = made.processes()
        for process in running:
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                continue
        if not running:
            break
        time.sleep(0.1)
    for name in made.names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    # A namespace with unanswered connections continues to exist for a while after its deletion, and so would its link.
    for link in [*made.links.values(), bridge]:
        subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)


def _refusal(command: list[str]) -> str | None:
    """Runs a command and returns its error output, or None if it succeeded."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or "refused"


def find_sshd() -> str | None:
    """Returns the path of sshd; sshd must be started by its absolute path."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def reason_for_no_sshd() -> str | None:
    """Returns why hosts cannot be reached by ssh, or None if they can."""
    if find_sshd() is None:
        return "there is no sshd (Debian: openssh-server)"
    for tool in ("ssh", "ssh-keygen"):
        if shutil.which(tool) is None:
            return f"there is no {tool} (Debian: openssh-client)"
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        return "the user sshd does not exist (Debian's openssh-server creates it)"
    return None


def _wait_for(address: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((address, 22), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@contextmanager
def served_by_ssh(net: Hosts, folder: Path) -> Iterator[tuple[dict[str, str], Path]]:
    """Starts an sshd with its own keys on each host. Yields the environment of the launcher and the folder of the logs."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    daemon = folder / "sshd_config"
    daemon.write_text(
        f"HostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'user.pub'}\nPidFile none\nUsePAM no\nStrictModes no\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nLogLevel VERBOSE\n"
    )
    client = folder / "ssh_config"
    of_all = f"IdentityFile {folder / 'user'}\nIdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    each = "".join(f"Host {name}\nHostName {net.addresses[name]}\n" for name in net.names)
    client.write_text(f"{each}Host *\nLogLevel ERROR\n{of_all}")
    place = Path("/run/sshd")  # sshd's directory for privilege separation
    made = not place.exists()
    place.mkdir(mode=0o755, exist_ok=True)
    begin = 'hostname "$1" && exec "$2" -D -f "$3" -E "$4"'
    daemons = [
        subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                name,
                "unshare",
                "--uts",
                "sh",
                "-c",
                begin,
                "sh",
                name,
                str(find_sshd()),
                str(daemon),
                str(folder / f"{name}.log"),
            ]
        )
        for name in net.names
    ]
    try:
        for address in net.addresses.values():
            _wait_for(address)
        yield Hosts.reached_by(f"ssh -F {client}"), folder
    finally:
        for process in daemons:
            process.kill()
            process.wait()
        if made:
            place.rmdir()
