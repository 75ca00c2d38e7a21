"""The configuration of a node: flags over RAFTSCHED_* variables over a TOML file over defaults, checked as one.

Every error is one line that says what is wrong and what would be right.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftsched import names, quantities
from raftsched.bounds import SLOTS_MAX
from raftsched.config import bounds, doors
from raftsched.config import runs as config_runs
from raftsched.config.addresses import Address
from raftsched.config.bounds import Bounds
from raftsched.config.runs import AS_IT_IS, RunsConfig, build_runs
from raftsched.core.allowed import Allowed, allowed_of
from raftsched.errors import Exit
from raftsched.handlers import KINDS
from raftsched.security.keyring import configured

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_PEERS_WANTED = "write n1=host:port,n2=host:port,n3=host:port, this node included"
GRACE_MS = (0, 10_000, 3_600_000)  # least, default, most
LOG_ENTRIES = (1_000, 50_000, 10_000_000)  # least, default, most
LOG_BYTES = (1 << 20, 64 << 20, 64 << 30)
LEADER_WAIT_MS = (100, 1_000, 10_000)  # an election takes about half a second; requests end after ten
PYTHON_RUNS = (1, 10_000, 1_000_000_000)
PYTHON_MEMORY = (32 << 20, 512 << 20, 1 << 50)
OUTPUT_MAX = (4 << 10, 1 << 20, 16 << 20)  # half of it is held in memory for each run that prints more
OUTPUT_KEEP_BYTES = (256 << 20, 16 << 30, 1 << 50)
OUTPUT_KEEP_MS = (3_600_000, 7 * 86_400_000, 3_650 * 86_400_000)
ALLOWED_MAX, ALLOWED_CHARS = 100, 256  # of each list that says what jobs may name: they are announced to all nodes
LOG_FORMATS = ("text", "json")
SETTINGS = (
    "id", "data", "http", "raft", "peers", "advertise_http", "advertise_raft", "cluster_key_file", "slots", "labels",
    "pythonpath", "handlers", "join", "log_keep_entries", "log_keep_bytes", "python_runs_max",
    "python_memory_max", "leader_wait", "output_max", "output_keep", "output_keep_bytes", "log_format", "grace",
    "tls_cert", "tls_key", "tls_client_ca", "insecure_http", "open", "tls_ca", "http_hosts",
    "executors", "exec_allow", "cwd_allow", "python_allow", "http_allow", "http_deny",
    "insecure_raft", *bounds.SETTINGS, "raft_cert", "raft_key", "raft_ca", *config_runs.NAMES,
)  # fmt: skip


EXECUTORS = (*KINDS, "call")
ALLOW_LISTS = ("exec_allow", "cwd_allow", "python_allow", "http_allow", "http_deny")


UNRESTRICTED = Allowed()  # but for addresses that are not public


class ConfigError(ValueError):
    """One line for the operator."""

    exit = Exit.ERROR


class Unprotected(ConfigError):
    """What is asked for lets strangers in, and was not said to be meant."""

    exit = Exit.USAGE


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    id: str
    data: Path  # directory, made when missing
    http: Address  # listens here
    raft: Address  # listens here
    peers: Mapping[str, Address]  # where the members' Raft ports are, this node included
    advertise_http: Address  # what other nodes and answers call this node
    advertise_raft: Address
    cluster_key_file: Path | None = None  # None: the key in `data`, which a node alone makes itself
    insecure_raft: bool = False  # no key at all, on loopback: every user of this machine is a member
    # what this node shows to the others and what theirs are signed by; None: the key alone says who is who
    raft_cert: Path | None = None
    raft_key: Path | None = None
    raft_ca: Path | None = None
    slots: int  # attempts at one time
    labels: tuple[tuple[str, str], ...] = ()  # sorted
    pythonpath: tuple[Path, ...] = ()  # for python handlers, absolute
    handlers: tuple[str, ...] = ()  # modules that register handlers by name
    join: bool = False  # a new node of a cluster that exists
    # how much of the log is kept for members that were away; who lacks more gets a snapshot of everything
    log_keep_entries: int = LOG_ENTRIES[1]
    log_keep_bytes: int = LOG_BYTES[1]
    # a process for python handlers is replaced after so many runs, and when it has so many bytes in memory after one
    python_runs_max: int = PYTHON_RUNS[1]
    python_memory_max: int = PYTHON_MEMORY[1]
    # how long requests to this node wait for a leader. Not replicated: without a leader nobody could change it
    leader_wait_ms: int = LEADER_WAIT_MS[1]
    # bytes of output kept of an attempt, and how long: on this node's disk, so said for each node
    output_max: int = OUTPUT_MAX[1]
    output_keep_ms: int = OUTPUT_KEEP_MS[1]
    output_keep_bytes: int = OUTPUT_KEEP_BYTES[1]
    log_format: str = LOG_FORMATS[0]
    bounds: Bounds = field(default_factory=Bounds)  # of what callers may hold at one time
    grace_ms: int = GRACE_MS[1]  # what runs have to come to an end when the node stops
    # users are spoken to with this certificate (and their own are asked for); see doors.py
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_ca: Path | None = None
    http_hosts: tuple[str, ...] = ()  # names by which a proxy, say, calls this node
    insecure_http: bool = False  # plain HTTP beyond loopback is meant: a proxy with TLS is in front
    open: bool = False  # no tokens beyond loopback is meant
    executors: tuple[str, ...] = EXECUTORS  # the handlers that it offers
    allowed: Allowed = UNRESTRICTED  # what jobs may name
    runs: RunsConfig = AS_IT_IS  # as whom, and with how much

    @property
    def announced_http(self) -> str:
        """Where the API is, as the other nodes are told: with https:// in front where it speaks TLS."""
        return f"https://{self.advertise_http}" if self.tls_cert is not None else str(self.advertise_http)

    @property
    def http_beyond(self) -> bool:
        """Whether others than this machine may reach the API."""
        return doors.beyond_loopback(self.http, self.advertise_http)

    @property
    def local_url(self) -> tuple[str, str]:
        """Of the API, on this machine, and the file of who signed its certificate."""
        url = doors.local_url(self.http, self.advertise_http, self.tls_cert is not None)
        return url, "" if self.tls_ca is None else str(self.tls_ca.absolute())

    @property
    def guarded(self) -> bool:
        """Whether this node wants tokens whatever the cluster says."""
        return self.http_beyond and not self.open


def default_slots() -> int:
    """Thirty-two for each CPU: jobs mostly wait, and a slot costs nothing until it is used (about 5 MiB while a python
    function waits in it). Throughput of short runs is slots divided by the few milliseconds from one assignment to the
    next, and what more of them have in common, a turn of the log, costs each of them less."""
    return 32 * (os.cpu_count() or 1)


def load(flags: Mapping[str, Any], environ: Mapping[str, str], config_file: Path | None = None) -> NodeConfig:
    """Puts the four sources together. `flags` are named as in SETTINGS; None or empty means not given.

    Raises ConfigError.
    """
    settings: dict[str, Any] = _read_file(config_file) if config_file is not None else {}
    settings.update({name: value for name in SETTINGS if (value := environ.get(f"RAFTSCHED_{name.upper()}"))})
    settings.update({name: value for name, value in flags.items() if value not in (None, (), False)})
    return build(settings)


def build(settings: Mapping[str, Any]) -> NodeConfig:
    """Checks raw settings (text, or the types a TOML file has). Raises ConfigError."""
    node_id = _node_id(_required(settings, "id", "--id n1"))
    data = Path(text_of("data", _required(settings, "data", "--data /var/lib/raftsched")))
    http = parse_address("http", settings.get("http", "127.0.0.1:7401"))
    raft = parse_address("raft", settings.get("raft", "127.0.0.1:7501"))
    join = flag("join", settings.get("join", False))
    peers = parse_peers(settings.get("peers", {}))
    advertise_raft = _advertised_raft(settings, node_id, raft, peers, join)
    if "advertise_http" in settings:
        advertise_http = parse_address("advertise_http", settings["advertise_http"])
    else:
        advertise_http = Address(advertise_raft.host, http.port) if http.wildcard else http
    if advertise_http.wildcard:
        raise ConfigError(f"advertise_http {advertise_http}: nobody can connect to that; write the address others use")
    key_file, insecure_raft = configured(settings, data, [raft, advertise_raft, *peers.values()], join)
    executors = _executors(settings)
    return NodeConfig(
        id=node_id,
        data=data,
        http=http,
        raft=raft,
        peers={**peers, node_id: advertise_raft},
        advertise_http=advertise_http,
        advertise_raft=advertise_raft,
        cluster_key_file=key_file,
        insecure_raft=insecure_raft,
        slots=_slots(settings["slots"]) if "slots" in settings else default_slots(),
        labels=parse_labels(settings.get("labels", {})),
        pythonpath=_paths(settings.get("pythonpath", ())),
        handlers=_modules(settings.get("handlers", ())),
        join=join,
        log_keep_entries=whole_number("log_keep_entries", LOG_ENTRIES, settings),
        log_keep_bytes=_bytes("log_keep_bytes", LOG_BYTES, settings),
        python_runs_max=whole_number("python_runs_max", PYTHON_RUNS, settings),
        python_memory_max=_bytes("python_memory_max", PYTHON_MEMORY, settings),
        leader_wait_ms=_duration("leader_wait", LEADER_WAIT_MS, settings),
        output_max=_bytes("output_max", OUTPUT_MAX, settings),
        output_keep_ms=_duration("output_keep", OUTPUT_KEEP_MS, settings),
        output_keep_bytes=_bytes("output_keep_bytes", OUTPUT_KEEP_BYTES, settings),
        log_format=_log_format(settings.get("log_format", LOG_FORMATS[0])),
        bounds=bounds.bounds(settings),
        grace_ms=_duration("grace", GRACE_MS, settings),
        **doors.door(settings, http, advertise_http)._asdict(),
        **doors.raft_files(settings, insecure_raft),
        executors=executors,
        allowed=_allowed(executors, settings),
        runs=_runs(settings),
    )


def _log_format(value: Any) -> str:
    if value not in LOG_FORMATS:
        raise ConfigError(f"log_format must be {' or '.join(LOG_FORMATS)}, not {value!r}")
    return str(value)


def parse_size(name: str, value: Any) -> int:
    """Bytes, as a number or with a unit: 64MiB, 1GB. Raises ConfigError."""
    try:
        return quantities.parse_size("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ConfigError(f"{name} {value!r} {error}") from None


def parse_address(name: str, value: Any) -> Address:
    """host:port, [ipv6]:port. Raises ConfigError."""
    text = text_of(name, value).strip()
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        good = _is_ipv6(host)
    else:
        good = names.HOST.allows(host) is not None
    if not colon or not good:
        raise ConfigError(f"{name} {text!r} is not an address; write host:port, such as 127.0.0.1:7401 or [::1]:7401")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise ConfigError(f"{name} {text!r}: the port must be a number from 1 to 65535")
    return Address(host, int(port))


def parse_peers(value: Any) -> dict[str, Address]:
    """`n1=host:port,n2=...`, a list of such items, or a table. Raises ConfigError."""
    if isinstance(value, Mapping):
        pairs = [(str(node), address) for node, address in value.items()]
    else:
        items = value.split(",") if isinstance(value, str) else list_of("peers", value)
        pairs = []
        for item in (i.strip() for i in items):
            node, equals, address = item.partition("=")
            if item and not equals:
                raise ConfigError(f"peers: {item!r} has no =; {_PEERS_WANTED}")
            if item:
                pairs.append((node.strip(), address.strip()))
    peers: dict[str, Address] = {}
    for node, address in pairs:
        _node_id(node)
        if node in peers:
            raise ConfigError(f"peers: {node!r} is there twice; every node has one id and one address")
        found = parse_address(f"peers: {node}", address)
        if found.wildcard:
            raise ConfigError(f"peers: {node}={found}: nobody can connect to that; write the address others use")
        for other, taken in peers.items():
            if taken == found:
                raise ConfigError(f"peers: {other} and {node} have the same address {found}; each node has its own")
        peers[node] = found
    return peers


def parse_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """`k=v,k=v`, a list of such items, or a table; sorted. Raises ConfigError."""
    if isinstance(value, Mapping):
        pairs = [(str(k), text_of(f"label {k}", v)) for k, v in value.items()]
    else:
        items = value.split(",") if isinstance(value, str) else list_of("labels", value)
        pairs = []
        for item in (i.strip() for i in items):
            key, equals, text = item.partition("=")
            if item and not equals:
                raise ConfigError(f"label {item!r} has no =; write key=value, such as disk=ssd")
            if item:
                pairs.append((key, text))
    labels: dict[str, str] = {}
    for key, text in pairs:
        if not names.LABEL.allows(key) or len(text) > 128 or not text.isprintable():
            raise ConfigError(
                f"label {key[:80]!r}: a key has {names.LABEL.rule}; a value has at most 128 printable characters"
            )
        if labels.setdefault(key, text) != text:
            raise ConfigError(f"label {key!r} is there twice with different values; keep one")
    return tuple(sorted(labels.items()))


def _advertised_raft(
    settings: Mapping[str, Any], node_id: str, raft: Address, peers: Mapping[str, Address], join: bool
) -> Address:
    mine = peers.get(node_id)
    if join and not peers.keys() - {node_id}:
        raise ConfigError(
            "join: peers must name at least one running member of the cluster to be let into; say --peers"
            " n1=host:port,..."
        )
    if peers and mine is None and not join:
        raise ConfigError(
            f"peers: {node_id!r}, this node, is not among {', '.join(peers)}; the list is the same on every node and"
            " names all of them (a new node of a cluster that exists says --join)"
        )
    if "advertise_raft" in settings:
        advertised = parse_address("advertise_raft", settings["advertise_raft"])
        if mine is not None and mine != advertised:
            raise ConfigError(
                f"advertise_raft is {advertised}, but peers say {node_id}={mine}; the two must be the same"
            )
    else:
        advertised = mine or raft
        if mine is not None and mine.port != raft.port:
            raise ConfigError(
                f"raft listens on port {raft.port}, but peers say {node_id}={mine}; correct one of them, or say"
                f" --advertise-raft {mine} when ports are mapped"
            )
    for other, taken in peers.items():
        if other != node_id and taken == advertised:
            raise ConfigError(f"raft {advertised} is the address of {other} in peers; each node has its own")
    if advertised.wildcard:
        raise ConfigError(f"raft {raft} listens everywhere; say --advertise-raft host:port, the address others use")
    return advertised


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as f:
            settings = tomllib.load(f)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {(e.strerror or str(e)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} is not TOML: {str(e).splitlines()[0]}") from None
    for name in settings:
        if name not in SETTINGS:
            raise ConfigError(f"{path}: {name!r} is not a setting; known are {', '.join(SETTINGS)}")
    return settings


def _required(settings: Mapping[str, Any], name: str, example: str) -> Any:
    if not settings.get(name):
        raise ConfigError(
            f"{name} is missing; say {example}, set RAFTSCHED_{name.upper()}, or put it into --config FILE"
        )
    return settings[name]


def _node_id(value: Any) -> str:
    text = text_of("id", value)
    if not names.NODE.allows(text):
        raise ConfigError(f"id {text[:80]!r} is not possible; an id has {names.NODE.rule}, like n1")
    return text


def text_of(name: str, value: Any) -> str:
    if isinstance(value, (str, Path)):
        return str(value)
    raise ConfigError(f'{name} must be text, not {value!r}; write it in quotes, like "..."')


def list_of(name: str, value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [text_of(name, item) for item in value]
    raise ConfigError(f"{name} must be text or a list, not {value!r}")


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        return text in ("1", "true", "yes", "on")
    raise ConfigError(f"{name} must be true or false, not {value!r}")


def _slots(value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 9):
        raise ConfigError(f"slots must be a whole number from 1 to {SLOTS_MAX}, not {value!r}")
    if not 1 <= int(text) <= SLOTS_MAX:
        raise ConfigError(f"slots must be from 1 to {SLOTS_MAX}, not {text}")
    return int(text)


def whole_number(name: str, bounds: tuple[int, int, int], settings: Mapping[str, Any]) -> int:
    """`bounds`: least, default, most."""
    least, usual, most = bounds
    value = settings.get(name, usual)
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 12):
        raise ConfigError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    if not least <= int(text) <= most:
        raise ConfigError(f"{name} must be from {least} to {most}, not {text}")
    return int(text)


def _bytes(name: str, bounds: tuple[int, int, int], settings: Mapping[str, Any]) -> int:
    """`bounds`: least, default, most."""
    least, usual, most = bounds
    value = settings.get(name, usual)
    size = parse_size(name, value)
    if not least <= size <= most:
        raise ConfigError(f"{name} must be from {_size_text(least)} to {_size_text(most)}, not {value}")
    return size


def _size_text(size: int) -> str:
    """In the largest unit that holds it whole."""
    units = ("KiB", "MiB", "GiB")
    power = max((n for n in range(len(units) + 1) if size % (1 << (10 * n)) == 0), default=0)
    return f"{size >> (10 * power)}{units[power - 1] if power else 'B'}"


def _duration(name: str, bounds: tuple[int, int, int], settings: Mapping[str, Any]) -> int:
    """Milliseconds. `bounds`: least, default, most."""
    least, default, most = bounds
    if name not in settings:
        return default
    value = settings[name]
    try:
        found = quantities.parse_duration(text_of(name, value))
    except ValueError as error:
        raise ConfigError(f"{name} {str(value)[:80]!r} {error}") from None
    if not least <= found <= most:
        within = f"from {quantities.format_duration(least)} to {quantities.format_duration(most)}"
        raise ConfigError(f"{name} must be {within}, not {value}")
    return found


def _paths(value: Any) -> tuple[Path, ...]:
    items = value.split(os.pathsep) if isinstance(value, str) else list_of("pythonpath", value)
    paths = [Path(item).absolute() for item in items if item]
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"pythonpath {path} is not a directory")
    return tuple(dict.fromkeys(paths))


def _modules(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else list_of("handlers", value)
    modules = [item.strip() for item in items if item.strip()]
    for module in modules:
        if not _MODULE.fullmatch(module):
            raise ConfigError(f"handlers {module[:80]!r} is not a module; write its dotted name, such as shop.tasks")
    return tuple(dict.fromkeys(modules))


def _executors(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that are named; where exec_allow is said and nothing is named, all but the shell."""
    if "executors" not in settings:
        return tuple(e for e in EXECUTORS if e != "shell" or "exec_allow" not in settings)
    items = _items("executors", settings["executors"])
    for item in items:
        if item not in EXECUTORS:
            raise ConfigError(f"executors {item[:80]!r} is none; name some of {', '.join(EXECUTORS)}")
    return tuple(e for e in EXECUTORS if e in items)


def _allowed(executors: tuple[str, ...], settings: Mapping[str, Any]) -> Allowed:
    lists = {name: _items(name, settings[name]) for name in ALLOW_LISTS if name in settings}
    for name, items in lists.items():
        if len(items) > ALLOWED_MAX or any(len(item) > ALLOWED_CHARS for item in items):
            raise ConfigError(
                f"{name} has {len(items)} items; at most {ALLOWED_MAX} of {ALLOWED_CHARS} characters each"
            )
    try:
        return allowed_of(executors, lists)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _runs(settings: Mapping[str, Any]) -> RunsConfig:
    try:
        return build_runs(settings)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _items(name: str, value: Any) -> tuple[str, ...]:
    """Text with commas, or a list."""
    items = value.split(",") if isinstance(value, str) else list_of(name, value)
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
