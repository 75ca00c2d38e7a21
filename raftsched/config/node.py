"""The configuration of a node: flags over RAFTSCHED_* variables over a TOML file over defaults, checked as one.

Every error is one line that says what is wrong and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftsched.bounds import OUTPUT_KEEP_MS, SLOTS_MAX
from raftsched.config import bounds, protection
from raftsched.config import runs as config_runs
from raftsched.config import shipping as config_shipping
from raftsched.config.addresses import Address, advertised_http, advertised_raft, node_id, parse_address, parse_peers
from raftsched.config.bounds import Bounds
from raftsched.config.runs import AS_IT_IS, RunsConfig, build_runs
from raftsched.config.shipping import ShipConfig, build_shipping
from raftsched.config.values import (
    ConfigError,
    Range,
    duration_of,
    flag,
    size_of,
    text_of,
    whole_number,
)
from raftsched.config.work import (
    ALLOW_LISTS,
    EXECUTORS,
    GRACE_MS,
    LOG_FORMATS,
    OUTPUT_MAX,
    UNRESTRICTED,
    default_slots,
    executors_of,
    log_format_of,
    merged,
    modules_of,
    parse_labels,
    paths_of,
    required,
    rules_of,
)
from raftsched.core.limits import WEIGHT_MAX
from raftsched.core.rules.allowed import Allowed

LOG_ENTRIES = Range(1_000, 50_000, 10_000_000)
LOG_BYTES = Range(1 << 20, 64 << 20, 64 << 30)
# No shorter: what a leader says of its commit index counts for 900 ms (raft.proposals.committed). No longer: a leader
# that died is missed for twice as long, and leases of runs run out meanwhile (session_ttl).
ELECTION_TIMEOUT_MS = Range(1_000, 1_000, 5_000)
LEADER_WAIT_MS = Range(100, 1_000, 10_000)  # an election takes about half a second; requests end after ten
OUTPUT_KEEP_BYTES = Range(256 << 20, 16 << 30, 1 << 50)
OUTPUT_KEEP = Range(OUTPUT_KEEP_MS[0], 7 * 86_400_000, OUTPUT_KEEP_MS[1])
SETTINGS = (
    "id", "data", "http", "raft", "peers", "advertise_http", "advertise_raft", "cluster_key_file", "slots", "labels",
    "pythonpath", "handlers", "join", "log_keep_entries", "log_keep_bytes", "python_runs_max",
    "python_memory_max", "leader_wait", "election_timeout", "output_max", "output_keep", "output_keep_bytes",
    "log_format", "grace",
    "tls_cert", "tls_key", "tls_client_ca", "insecure_http", "open", "tls_ca", "http_hosts",
    "executors", *ALLOW_LISTS,
    "no_run", "weight", "tracing", "insecure_raft", *bounds.SETTINGS, "raft_cert", "raft_key", "raft_ca",
    *config_runs.NAMES, "output_copies_bytes", "output_store", "s3_endpoint", "output_store_bytes",
    *config_shipping.NAMES,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The checked configuration of a node."""

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
    slots: int  # attempts at one time; 0: it votes and serves the API, and runs nothing
    weight: int = 1  # of its slots, beside those of others
    labels: tuple[tuple[str, str], ...] = ()  # sorted
    pythonpath: tuple[Path, ...] = ()  # for python handlers, absolute
    handlers: tuple[str, ...] = ()  # modules that register handlers by name
    join: bool = False  # a new node of a cluster that exists
    # how much of the log is kept for members that were away; one that lacks more gets a snapshot
    log_keep_entries: int = LOG_ENTRIES.default
    log_keep_bytes: int = LOG_BYTES.default
    # how long requests to this node wait for a leader. Not replicated: without a leader nobody could change it
    leader_wait_ms: int = LEADER_WAIT_MS.default
    # how long nothing is heard of a leader before an election, at least (raft.options.elections); alike on all nodes
    election_timeout_ms: int = ELECTION_TIMEOUT_MS.default
    # of output on this node's disk: what is kept of an attempt at most, and how long, whatever the cluster's settings
    # say (None: as they say); and how much of it all
    output_max: int | None = None
    output_keep_ms: int | None = None
    output_keep_bytes: int = OUTPUT_KEEP_BYTES.default
    output_copies_bytes: int | None = None  # of other nodes' output, beside its own; None: as output_keep_bytes
    output_store: str = ""  # where second copies are put: a directory, or s3://BUCKET/PREFIX; "": other nodes have them
    s3_endpoint: str | None = None  # None: as the environment says, or AWS
    output_store_bytes: int | None = None  # of this node's output there; None: no such limit
    output_ship: ShipConfig | None = None  # where to what runs print is shipped; None: nowhere
    log_format: str = LOG_FORMATS[0]
    tracing: bool = False  # spans are sent as the OTEL_ variables say
    bounds: Bounds = field(default_factory=Bounds)  # of what callers may hold at one time
    grace_ms: int = GRACE_MS.default  # what runs have to come to an end when the node stops
    # users are spoken to with this certificate (and asked for their own); see protection.py
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
        """The address of the API for other nodes, with https:// in front where it speaks TLS."""
        return f"https://{self.advertise_http}" if self.tls_cert is not None else str(self.advertise_http)

    @property
    def http_beyond(self) -> bool:
        """True when other machines may reach the API."""
        return protection.beyond_loopback(self.http, self.advertise_http)

    @property
    def local_url(self) -> tuple[str, str]:
        """The URL of the API on this machine, and the file of the authority that signed its certificate, or ""."""
        url = protection.local_url(self.http, self.advertise_http, self.tls_cert is not None)
        return url, "" if self.tls_ca is None else str(self.tls_ca.absolute())

    @property
    def guarded(self) -> bool:
        """True when this node wants tokens whatever the cluster says."""
        return self.http_beyond and not self.open


def load(flags: Mapping[str, Any], environ: Mapping[str, str], config_file: Path | None = None) -> NodeConfig:
    """Returns the configuration of all four sources. `flags` are named as in SETTINGS; None or empty means not given.

    Raises ConfigError.
    """
    return build(merged(SETTINGS, flags, environ, config_file))


def build(settings: Mapping[str, Any]) -> NodeConfig:
    """Checks raw settings (text, or the types a TOML file has). Raises ConfigError."""
    own_id = node_id(required(settings, "id", "--id n1"))
    data = Path(text_of("data", required(settings, "data", "--data /var/lib/raftsched")))
    http = parse_address("http", settings.get("http", "127.0.0.1:7401"))
    raft = parse_address("raft", settings.get("raft", "127.0.0.1:7501"))
    join = flag("join", settings.get("join", False))
    peers = parse_peers(settings.get("peers", {}))
    advertise_raft = advertised_raft(settings, own_id, raft, peers, join)
    advertise_http = advertised_http(settings, http, advertise_raft)
    key_file, insecure_raft = protection.cluster_key(settings, data, [raft, advertise_raft, *peers.values()], join)
    executors = executors_of(settings)
    votes_only = _votes_only(settings)
    return NodeConfig(
        id=own_id,
        data=data,
        http=http,
        raft=raft,
        peers={**peers, own_id: advertise_raft},
        advertise_http=advertise_http,
        advertise_raft=advertise_raft,
        cluster_key_file=key_file,
        insecure_raft=insecure_raft,
        slots=0 if votes_only else whole_number(settings, "slots", Range(1, default_slots(), SLOTS_MAX)),
        weight=whole_number(settings, "weight", Range(1, 1, WEIGHT_MAX)),
        labels=parse_labels(settings.get("labels", {})),
        pythonpath=paths_of(settings.get("pythonpath", ())),
        handlers=modules_of(settings.get("handlers", ())),
        join=join,
        log_keep_entries=whole_number(settings, "log_keep_entries", LOG_ENTRIES),
        log_keep_bytes=size_of(settings, "log_keep_bytes", LOG_BYTES),
        leader_wait_ms=duration_of(settings, "leader_wait", LEADER_WAIT_MS),
        election_timeout_ms=duration_of(settings, "election_timeout", ELECTION_TIMEOUT_MS),
        output_max=size_of(settings, "output_max", OUTPUT_MAX) if "output_max" in settings else None,
        output_keep_ms=duration_of(settings, "output_keep", OUTPUT_KEEP) if "output_keep" in settings else None,
        output_keep_bytes=size_of(settings, "output_keep_bytes", OUTPUT_KEEP_BYTES),
        output_copies_bytes=size_of(settings, "output_copies_bytes", OUTPUT_KEEP_BYTES)
        if "output_copies_bytes" in settings
        else None,
        **_output_store(settings),
        output_ship=build_shipping(settings),
        log_format=log_format_of(settings.get("log_format", LOG_FORMATS[0])),
        tracing=flag("tracing", settings.get("tracing", False)),
        bounds=bounds.bounds(settings),
        grace_ms=duration_of(settings, "grace", GRACE_MS),
        **protection.http_protection(settings, http, advertise_http)._asdict(),
        **protection.raft_files(settings, insecure_raft),
        executors=executors,
        allowed=rules_of(executors, settings),
        runs=build_runs(settings),
    )


def _output_store(settings: Mapping[str, Any]) -> dict[str, Any]:
    where = text_of("output_store", settings.get("output_store", ""))
    most = None
    if "output_store_bytes" in settings:
        if not where:
            raise ConfigError("output_store_bytes says nothing without output_store; name the place, or leave it out")
        most = size_of(settings, "output_store_bytes", OUTPUT_KEEP_BYTES)
    endpoint = settings.get("s3_endpoint")
    return {
        "output_store": where,
        "output_store_bytes": most,
        "s3_endpoint": None if endpoint is None else text_of("s3_endpoint", endpoint),
    }


def _votes_only(settings: Mapping[str, Any]) -> bool:
    if not flag("no_run", settings.get("no_run", False)):
        return False
    said = [name for name in ("slots", "weight", "handlers") if settings.get(name)]
    if said:
        raise ConfigError(
            f"no_run and {said[0]} contradict each other: a node that runs nothing has none; leave one out"
        )
    return True
