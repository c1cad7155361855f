"""Settings of a service, by the same names on the command line, in the environment and in a TOML file.

`Settings` declares each setting once: its type, range, default and help text. ``--max-queue``, ``HELIOGRAPH_MAX_QUEUE`` and
``max_queue`` in a file are one setting; the command line has precedence, then the environment, the file, and the default.
"""

# ruff: noqa: RUF009  `_setting` is `dataclasses.field` with metadata

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph.serving.numeric import real, whole

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST_SIZE, _LONGEST = 1 << 60, 1e9  # units: bytes, seconds


@dataclass(frozen=True)
class Kind:
    """The type of a setting. `parse` converts a value and raises ParameterError with the setting's name."""

    metavar: str
    types: tuple[type, ...]  #: types of the setting's values in a TOML file
    parse: Callable[[Any, str], Any]
    is_list: bool = False


def _text(value: Any, what: str) -> str:
    return str(value)


def _path(value: Any, what: str) -> Path:
    return Path(value)


def _flag(value: Any, what: str) -> bool:
    return bool(value)


def _size(value: Any, what: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)(i?B)?", str(value))
    if match is None:
        raise _core.ParameterError(f"{what} must be a number of bytes, as in 500M, 4G, 4GiB; got {described(value)}")
    return whole(int(match[1]) * _SIZES[match[2]], what, 1, _LARGEST_SIZE)


def _time(value: Any, what: str, low: float = 0.001) -> float:
    match = re.fullmatch(r"([0-9.]{1,20})([smhd]?)", str(value))
    if match is None:
        raise _core.ParameterError(f"{what} must be a number of seconds, as in 90s, 15m, 12h, 30d; got {described(value)}")
    return real(real(match[1], what, 0, _LONGEST) * _TIMES[match[2]], what, low, _LONGEST)


def _count(low: int, high: int = 10**9) -> Kind:
    return Kind("NUMBER", (int,), lambda value, what: whole(value, what, low, high))


TEXT, PATH, FLAG = Kind("TEXT", (str,), _text), Kind("FILE", (str,), _path), Kind("", (bool,), _flag)
FOLDER, ADDRESS, PORT = Kind("FOLDER", (str,), _path), Kind("HOST:PORT", (str,), _text), _count(0, 65535)
SIZE, TIME = Kind("SIZE", (int, str), _size), Kind("TIME", (int, float, str), _time)
PERIOD = Kind("TIME", (int, float, str), partial(_time, low=0.0))  # whether the value may be 0
RATE = Kind("NUMBER", (int, float), lambda value, what: real(value, what, 0.001, 1e6))
PATHS, TEXTS = Kind("FILE", (str,), _path, is_list=True), Kind("TEXT", (str,), _text, is_list=True)


def _setting(kind: Kind, default: Any, text: str, shown: str = "") -> Any:
    """Declares a setting. `shown` is the default in the help text, if it differs from `default`."""
    return field(default=default, metadata={"kind": kind, "help": text, "default": shown})


@dataclass(frozen=True)
class Settings:
    """The settings of `heliograph serve`. Sizes are in bytes, times in seconds."""

    models: tuple[Path, ...] = _setting(
        PATHS, (), "Files of model bundles, look-up tables and vectors: digits.hgm phones.hgd ..."
    )
    store: Path | None = _setting(
        FOLDER, None, "Folder for keys, tables and requests, used by one service at a time; created if missing."
    )
    host: str = _setting(TEXT, "127.0.0.1", "Address to listen on; 0.0.0.0: all IPv4 addresses.")
    port: int = _setting(PORT, 8443, "HTTP port; 0: a free port.")
    grpc_port: int | None = _setting(PORT, None, "gRPC port; 0: a free port.", "no gRPC")
    tls_cert: Path | None = _setting(PATH, None, "TLS certificate of the service with its intermediate certificates (PEM).")
    tls_key: Path | None = _setting(PATH, None, "Private key of --tls-cert (PEM).", "in the same file")
    client_ca: Path | None = _setting(PATH, None, "CA certificates that verify client certificates (PEM).")
    client_crl: Path | None = _setting(PATH, None, "Revocation lists of the CAs in --client-ca, one list of each CA (PEM).")
    tokens: Path | None = _setting(
        PATH, None, "File of client names and token digests, one line each, printed by `heliograph token`."
    )
    insecure: bool = _setting(FLAG, False, "Listen to other machines without TLS, or without authentication of clients.")
    metrics_address: str | None = _setting(
        ADDRESS, None, "Address of /metrics (Prometheus), /livez and /readyz, without TLS; :9090 listens on 127.0.0.1 only."
    )
    quota: int = _setting(SIZE, 4 << 30, "Maximum bytes of keys and tables per client.", "4G")
    store_capacity: int = _setting(
        SIZE,
        64 << 30,
        "Maximum bytes of keys and tables of all clients; beyond it the least recently used are evicted.",
        "64G",
    )
    time_to_live: float = _setting(TIME, 30 * 86400.0, "Time after which unused keys expire.", "30d")
    max_objects_per_client: int = _setting(_count(1), 1000, "Maximum number of keys and tables per client.")
    max_uploads_per_client: int = _setting(_count(1), 16, "Maximum unfinished uploads per client.")
    max_uploads: int = _setting(_count(1), 1024, "Maximum unfinished uploads of all clients.")
    upload_time_to_live: float = _setting(
        TIME, 86400.0, "Time after its last byte after which an unfinished upload is deleted.", "1d"
    )
    memory_limit: int | None = _setting(
        SIZE, None, "Maximum memory of an engine.", "half of the machine's memory, or of the container's or unit's limit"
    )
    max_queue: int = _setting(_count(1), 64, "Maximum queued jobs.")
    max_jobs_per_client: int = _setting(_count(1), 16, "Maximum unfinished jobs per client.")
    max_batch_size: int = _setting(_count(1), 32, "Maximum queries of one table that are answered in one batch.")
    rate_limit: float | None = _setting(RATE, None, "Maximum jobs and started uploads a second per client.", "no limit")
    max_connections: int = _setting(_count(16), 2000, "Maximum connections of all clients, HTTP and gRPC together.")
    max_connections_per_client: int = _setting(
        _count(1),
        256,
        "Maximum connections per address and requests in progress per client. Behind a proxy: as many as it opens.",
    )
    max_streams_per_client: int = _setting(_count(1), 256, "Maximum gRPC streams in progress per client.")
    max_deadline: float = _setting(TIME, 3600.0, "Maximum time of a job, queueing included.", "1h")
    grace_period: float = _setting(PERIOD, 60.0, "Time for accepted jobs to end after SIGTERM.", "60s")
    keep_alive: float = _setting(TIME, 75.0, "Time after which an idle connection is closed.", "75s")
    device: tuple[str, ...] = _setting(
        TEXTS, (), "Device of an engine, as in HELIOGRAPH_DEVICE; repeatable, one engine each."
    )
    opentelemetry: bool = _setting(
        FLAG, False, "Record an OpenTelemetry span for each job; OpenTelemetry's variables configure it."
    )

    # Attributes that are not options

    body_timeout: float = 30.0  #: seconds without a byte of a request's body
    answer_time_to_live: float = 300.0  #: seconds for which an answer can be fetched again
    max_answer_bytes_per_client: int = 256 << 20  #: bytes of one client's retained answers
    max_ended_jobs_per_client: int = 1000  #: ended jobs of one client that are retained
    request_memory: int = 256 << 20  #: bytes of requests in memory; further requests are files
    answer_memory: int = 64 << 20  #: bytes of answers in memory; further answers are files


#: The settings that users may set, by name.
SETTINGS = {one.name: one for one in fields(Settings) if one.metadata}


def option_of(name: str) -> str:
    """Returns the command's option of a setting."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """Returns the environment variable of a setting."""
    return "HELIOGRAPH_" + name.upper()


def from_file(path: Path) -> dict[str, Any]:
    """Reads a TOML file and returns its settings by name. Paths in the file are relative to the file's folder. Raises
    ParameterError for an unknown key, a wrong type or a value out of range; OSError.

    """
    where = f"cannot read the settings {printable(str(path))}"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # the file is not TOML, or not UTF-8
        raise _core.ParameterError(f"{where}: {printable(str(error))}; write TOML, as in max_queue = 64") from None
    found = {}
    for name, value in given.items():
        if name not in SETTINGS:
            raise _core.ParameterError(f"{where}: unknown key {described(name)}; use keys of {', '.join(SETTINGS)}")
        found[name] = _from_toml(SETTINGS[name].metadata["kind"], value, f"{where}: {name}", path.parent)
    return found


def _from_toml(kind: Kind, value: Any, what: str, folder: Path) -> Any:
    """Converts a value of a TOML file. Raises ParameterError."""
    names = " or ".join({str: "a string", bool: "true or false", int: "an integer", float: "a float"}[t] for t in kind.types)
    values = value if kind.is_list and isinstance(value, list) else [value]
    if kind.is_list != isinstance(value, list) or any(type(one) not in kind.types for one in values):
        raise _core.ParameterError(f"{what} must be {'a list, each value ' * kind.is_list}{names}, got {described(value)}")
    made = [kind.parse(one, what) for one in values]
    made = [folder / one if isinstance(one, Path) else one for one in made]
    return tuple(made) if kind.is_list else made[0]


def half_of_memory() -> int:
    """Returns the default of --memory-limit in bytes: half of the machine's memory, or of the container's or unit's limit if
    that is less.
    """
    return _core.device.host_memory() // 2
