"""Reads the configuration of a node: flags over RAFTSCHED_* variables over a TOML file over defaults, checked as one.

Every error is one line that says what is wrong and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from raftsched.config import protection
from raftsched.config.addresses import Address, advertised_http, advertised_raft
from raftsched.config.bounds import Bounds, bounds
from raftsched.config.flags import NODE, names_of
from raftsched.config.reading import by_kind, default_of, value_of
from raftsched.config.runs import AS_IT_IS, RunsConfig, build_runs
from raftsched.config.shipping import ShipConfig, build_shipping
from raftsched.config.values import ConfigError
from raftsched.config.work import EXECUTORS, UNRESTRICTED, executors_of, merged, required, rules_of
from raftsched.core.rules.allowed import Allowed

SETTINGS = names_of(NODE)


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
    log_keep_entries: int = default_of("log_keep_entries")
    log_keep_bytes: int = default_of("log_keep_bytes")
    # how long requests to this node wait for a leader. Not replicated: without a leader nobody could change it
    leader_wait_ms: int = default_of("leader_wait")
    # how long nothing is heard of a leader before an election, at least (raft.options.elections); alike on all nodes
    election_timeout_ms: int = default_of("election_timeout")
    # of output on this node's disk: what is kept of an attempt at most, and how long, whatever the cluster's settings
    # say (None: as they say); and how much of it all
    output_max: int | None = None
    output_keep_ms: int | None = None
    output_keep_bytes: int = default_of("output_keep_bytes")
    output_copies_bytes: int | None = None  # of other nodes' output, beside its own; None: as output_keep_bytes
    output_store: str = ""  # where second copies are put: a directory, or s3://BUCKET/PREFIX; "": other nodes have them
    s3_endpoint: str | None = None  # None: as the environment says, or AWS
    output_store_bytes: int | None = None  # of this node's output there; None: no such limit
    output_ship: ShipConfig | None = None  # where to what runs print is shipped; None: nowhere
    log_format: str = default_of("log_format")
    tracing: bool = False  # spans are sent as the OTEL_ variables say
    bounds: Bounds = field(default_factory=Bounds)  # of what callers may hold at one time
    grace_ms: int = default_of("grace")  # what runs have to come to an end when the node stops
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
        """Returns whether other machines may reach the API."""
        return protection.beyond_loopback(self.http, self.advertise_http)

    @property
    def local_url(self) -> tuple[str, str]:
        """The URL of the API on this machine, and the file of the authority that signed its certificate, or ""."""
        url = protection.local_url(self.http, self.advertise_http, self.tls_cert is not None)
        return url, "" if self.tls_ca is None else str(self.tls_ca.absolute())

    @property
    def guarded(self) -> bool:
        """Returns whether this node wants tokens whatever the cluster says."""
        return self.http_beyond and not self.open


def load(flags: Mapping[str, Any], environ: Mapping[str, str], config_file: Path | None = None) -> NodeConfig:
    """Returns the configuration of all four sources. `flags` are named as in SETTINGS; None or empty means not given.

    Raises ConfigError.
    """
    return build(merged(SETTINGS, flags, environ, config_file))


def build(settings: Mapping[str, Any]) -> NodeConfig:
    """Checks raw settings (text, or the types a TOML file has). Raises ConfigError."""
    required(settings, "id", "--id n1")
    own_id = value_of("id", settings)
    required(settings, "data", "--data /var/lib/raftsched")
    data, http, raft = Path(value_of("data", settings)), value_of("http", settings), value_of("raft", settings)
    join, peers = value_of("join", settings), value_of("peers", settings)
    advertise_raft = advertised_raft(settings, own_id, raft, peers, join)
    advertise_http = advertised_http(settings, http, advertise_raft)
    key_file, insecure_raft = protection.cluster_key(settings, data, [raft, advertise_raft, *peers.values()], join)
    executors = executors_of(settings)
    votes_only = _votes_only(settings)
    found: dict[str, Any] = {
        "id": own_id,
        "data": data,
        "peers": {**peers, own_id: advertise_raft},
        "advertise_http": advertise_http,
        "advertise_raft": advertise_raft,
        "cluster_key_file": key_file,
        "insecure_raft": insecure_raft,
        "slots": 0 if votes_only else value_of("slots", settings),
        **_output_store(settings),
        "output_ship": build_shipping(settings),
        "bounds": bounds(settings),
        **protection.http_protection(settings, http, advertise_http)._asdict(),
        **protection.raft_files(settings, insecure_raft),
        "executors": executors,
        "allowed": rules_of(executors, settings),
        "runs": build_runs(settings),
    }
    return NodeConfig(**found, **by_kind((one.name for one in fields(NodeConfig)), settings, but=found))


def _output_store(settings: Mapping[str, Any]) -> dict[str, Any]:
    where, most = value_of("output_store", settings) or "", None
    if "output_store_bytes" in settings:
        if not where:
            raise ConfigError("output_store_bytes says nothing without output_store; name the place, or leave it out")
        most = value_of("output_store_bytes", settings)
    return {"output_store": where, "output_store_bytes": most}


def _votes_only(settings: Mapping[str, Any]) -> bool:
    if not value_of("no_run", settings):
        return False
    said = [name for name in ("slots", "weight", "handlers") if settings.get(name)]
    if said:
        raise ConfigError(
            f"no_run and {said[0]} contradict each other: a node that runs nothing has none; leave one out"
        )
    return True
