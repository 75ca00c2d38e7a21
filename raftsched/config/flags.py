"""Lists the flags of `raftsched node` and `raftsched worker`, in one row each.

The options of both commands, the RAFTSCHED_ variables, the names in the TOML file, the bounds, the reference of the
documents and the names that SIGHUP takes are made of these rows. Which text becomes which value is said in
config/reading.py, by the row's kind. Nothing is imported here that takes time: the command line shows its help of it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from raftsched.bounds import OUTPUT_KEEP_MS, OUTPUT_MAX_BYTES, SLOTS_MAX, WEIGHT_MAX

NODE, WORKER = "node", "worker"
BOTH = (NODE, WORKER)


# What stands in the help for a value of this kind, where the row does not say.
METAVARS = {
    "address": "HOST:PORT",
    "directories": "DIR",
    "duration": "TIME",
    "file": "FILE",
    "hosts": "NAME,...",
    "labels": "KEY=VALUE",
    "log format": "FORMAT",
    "modules": "MODULE",
    "namespaces": "NAME,...",
    "networks": "NET,...",
    "node id": "ID",
    "number": "N",
    "peers": "ID=HOST:PORT,...",
    "queues": "NAME,...",
    "servers": "URL[,URL]",
    "size": "SIZE",
    "users": "NAMESPACE=USER",
    "variables": "NAME",
    "worker name": "NAME",
}


class Flag(NamedTuple):
    """A flag. Its order among the others is that of the help."""

    name: str  # in the TOML file; with RAFTSCHED_ in front, a variable
    kind: str  # how it is read: a key of reading.KINDS
    help: str  # "WHO" stands for the command: node or worker
    of: tuple[str, ...] = (NODE,)  # the commands that have it
    metavar: str = ""  # "": that of its kind
    bounds: tuple[int, int] = (0, 0)  # least and most, both included, of a number, bytes or milliseconds
    default: str | None = None  # as it would be written, and shown; None: none but what the help says in words
    worker: str = ""  # the help of `raftsched worker`, where it is another one
    group: str = ""  # of flags that are read together
    option: str = ""  # on the command line, where it is not called as the setting is
    repeated: bool = False  # on the command line; a list in the file, with commas in its variable
    taken: tuple[str, ...] = ()  # by which commands on SIGHUP, as one value that is looked at when it is needed

    @property
    def switch(self) -> bool:
        return self.kind == "switch"

    @property
    def field(self) -> str:
        """The name of its value in a configuration."""
        return f"{self.name}_ms" if self.kind == "duration" else self.name


def default_slots() -> int:
    """Returns 32 for each CPU. Jobs mostly wait, and a slot costs nothing until it is used (about 5 MiB while a python
    function waits in it). The throughput of short runs is slots divided by the few milliseconds from one assignment to
    the next, and the more of them share a write batch, the less each of them costs."""
    return min(SLOTS_MAX, 32 * (os.cpu_count() or 1))


_DISK = (256 << 20, 1 << 50)  # bytes
# No shorter: what a leader says of its commit index counts for 900 ms (raft.proposals.committed). No longer: a leader
# that died is missed for twice as long, and leases of runs run out meanwhile (session_ttl).
_ELECTION = (1_000, 5_000)
_WAIT = (100, 10_000)  # an election takes about half a second; requests end after ten

ROWS = (
    Flag("server", "servers", "Nodes to work for; several, so that one may fail.", (WORKER,)),
    Flag("name", "worker name", "Its name in the cluster.  [default: that of this machine]", (WORKER,)),
    Flag("id", "node id", "Name of this node: a-z, 0-9, '.', '_', '-'; kept for its whole life."),
    Flag("data", "text", "Its data directory; made when missing, never shared.", BOTH, "DIR",
         worker="Its own place.  [default: raftsched/workers/NAME below the user's state]"),
    Flag("token_file", "file", "Its token, of the role worker (or RAFTSCHED_TOKEN, --token).", (WORKER,)),
    Flag("http", "address", "Listens here for users.", default="127.0.0.1:7401"),
    Flag("raft", "address", "Listens here for the other nodes.", default="127.0.0.1:7501"),
    Flag("peers", "peers", "All nodes and their Raft addresses, this one included."),
    Flag("advertise_http", "address", "The address of --http for others, if it differs."),
    Flag("advertise_raft", "address", "The address of --raft for others, if it differs."),
    Flag("cluster_key_file", "text", "The same file on all nodes; made with 'raftsched keys new'.", metavar="FILE"),
    Flag("raft_cert", "file", "Shown to other nodes; made with 'raftsched certs node'."),
    Flag("raft_key", "file", "The key of --raft-cert."),
    Flag("raft_ca", "file", "Who signed the certificates of other nodes; may hold several."),
    Flag("insecure_raft", "switch", "No key: all users of this machine are trusted. Loopback only."),
    Flag("slots", "number", "Attempts at one time.  [default: 32 for each CPU]", BOTH,
         bounds=(1, SLOTS_MAX), default=str(default_slots()), worker="Runs at one time.  [default: 32 for each CPU]"),
    Flag("no_run", "switch", "Votes and serves the API, and runs nothing: workers do."),
    Flag("labels", "labels", "For placement; may be repeated.", BOTH, option="label", repeated=True),
    Flag("queues", "queues", "Takes runs of these queues only.", (WORKER,)),
    Flag("namespaces", "namespaces", "Takes runs of these namespaces only.", (WORKER,)),
    Flag("join", "switch", "This is a new node of a cluster that exists; it waits to be let in."),
    Flag("log_keep_entries", "number", "Log kept for members that were away.",
         bounds=(1_000, 10_000_000), default="50000"),
    Flag("log_keep_bytes", "size", "And no more than this, such as 1GiB.", bounds=(1 << 20, 64 << 30), default="64MiB"),
    Flag("leader_wait", "duration", "Requests wait so long for a leader.", bounds=_WAIT, default="1s"),
    Flag("election_timeout", "duration", "Silence of a leader before an election; alike on all.",
         bounds=_ELECTION, default="1s"),
    Flag("output_keep", "duration", "How long output is kept here.  [default: as the settings say]",
         bounds=OUTPUT_KEEP_MS, taken=(NODE,)),
    Flag("output_keep_bytes", "size", "How much of it; the oldest goes first.", bounds=_DISK, default="16GiB"),
    Flag("output_copies_bytes", "size", "Of other nodes' output.  [default: as much again]", bounds=_DISK),
    Flag("output_store", "text", "Second copies are put there: a directory, s3://BUCKET/PREFIX.", metavar="PLACE"),
    Flag("output_store_bytes", "size", "Of this node's output there; the oldest goes first.", bounds=_DISK),
    Flag("s3_endpoint", "text", "Where S3 is.  [default: as the environment says, or AWS]", metavar="URL"),
    Flag("output_ship", "text", "Sends output of runs to stdout, loki+https://..., syslog+tcp://...",
         metavar="PLACE", group="ship"),
    Flag("output_ship_namespaces", "list", "Of these namespaces only.  [default: of all]",
         metavar="NAME,...", group="ship"),
    Flag("output_ship_credentials", "file", "For Loki: one line, USER:PASSWORD or a token.", group="ship"),
    Flag("output_ship_tenant", "text", "For Loki: its X-Scope-OrgID.", metavar="TENANT", group="ship"),
    Flag("output_ship_ca", "file", "Who signed its certificate.  [default: the system's]", group="ship"),
    Flag("grace", "duration", "How long runs may go on when the WHO stops.", BOTH, "DURATION",
         bounds=(0, 3_600_000), default="10s", taken=BOTH),
    Flag("connections_max", "number", "Connections that are open at one time.",
         bounds=(16, 1_000_000), default="10000"),
    Flag("streams_max", "number", "Streams of events and output that are read.", bounds=(1, 100_000), default="200"),
    Flag("token_streams_max", "number", "Of these, by one token.", bounds=(1, 100_000), default="20"),
    Flag("token_processor_ms", "number", "Processor time of one token a second.",
         metavar="MS", bounds=(0, 1_000_000), default="500", taken=(NODE,)),
    Flag("proxies", "networks", "Addresses that stand for many callers: of reverse proxies."),
    Flag("tls_cert", "file", "Speaks TLS to users; the certificate, PEM, with its chain."),
    Flag("tls_key", "file", "Its private key."),
    Flag("tls_client_ca", "file", "Users must show a certificate of these authorities."),
    Flag("tls_ca", "file", "Who signed the other nodes' certificates.  [default: the system's]"),
    Flag("http_hosts", "hosts", "Names in Host beside the advertised one, as behind a proxy."),
    Flag("insecure_http", "switch", "Plain HTTP beyond loopback: a proxy with TLS is in front."),
    Flag("open", "switch", "No tokens beyond loopback: whoever reaches this node runs programs here."),
    Flag("weight", "number", "One of its slots counts for so many of others.", BOTH,
         bounds=(1, WEIGHT_MAX), default="1"),
    Flag("pythonpath", "directories", "Where python handlers are; may be repeated.", BOTH, repeated=True),
    Flag("handlers", "modules", "Registers handlers by name; may be repeated.", BOTH, repeated=True),
    Flag("python_first", "modules", "Imported before handlers, by each process that calls them; repeat.", BOTH,
         repeated=True),
    Flag("env_pass", "variables", "Of its own environment, runs see these, too: DATABASE_URL; repeat.", BOTH,
         repeated=True),
    Flag("python_runs_max", "number", "Replace a python process after so many.", BOTH,
         bounds=(1, 1_000_000_000), default="10000"),
    Flag("python_memory_max", "size", "Or when it has grown to this.", BOTH,
         bounds=(32 << 20, 1 << 50), default="512MiB"),
    Flag("output_max", "size", "Output kept of an attempt here.  [default: as the settings say]", BOTH,
         bounds=OUTPUT_MAX_BYTES, taken=(NODE,)),  # half may be in memory for each run
    Flag("log_format", "log format", "text, or json: an object a line.", BOTH, default="text", taken=BOTH),
    Flag("tracing", "switch", "Sends OpenTelemetry spans, as variables OTEL_... say; needs raftsched[otel].", BOTH),
    Flag("executors", "list", "Offers only these: exec, shell, python, http, call.", BOTH, "KIND,..."),
    Flag("exec_allow", "list", "Programs that exec may start: /opt/jobs/*; repeat.", BOTH, "PATH",
         group="allow", repeated=True),
    Flag("env_allow", "list", "Variables that jobs may set then: APP_*; repeat.", BOTH, "NAME",
         group="allow", repeated=True),
    Flag("cwd_allow", "list", "Where jobs may run and conditions look; repeat.", BOTH, "DIR",
         group="allow", repeated=True),
    Flag("python_allow", "list", "What python may call: shop.*, shop.mail:send.", BOTH, "MODULE",
         group="allow", repeated=True),
    Flag("http_allow", "list", "Hosts and networks beside public ones; repeat.", BOTH, "RULE",
         group="allow", repeated=True),
    Flag("http_deny", "list", "Hosts and networks that jobs must not ask; repeat.", BOTH, "RULE",
         group="allow", repeated=True),
    Flag("run_as", "users", "The user of its jobs, by namespace; default=USER: all others.", BOTH, repeated=True),
    Flag("jobs_as_node", "switch", "Jobs may run as its own user, and so reach its data and its keys.", BOTH),
    Flag("users_allowed", "users", "More users that jobs may ask for; repeat.", BOTH, repeated=True),
    # what makes more processes makes them without end
    Flag("pids_max", "number", "Processes of a run.", BOTH, bounds=(16, 4_000_000), default="4096"),
    Flag("memory_max", "size", "Memory that a run may have, whatever its job says.", BOTH,
         bounds=(16 << 20, 1 << 50)),
    Flag("allow_new_privileges", "switch", "Jobs may use sudo and other set-user-ID programs.", BOTH),
    Flag("nice", "number", "By how much runs give way to the node, 0 to 19.", BOTH, bounds=(0, 19), default="5"),
)  # fmt: skip
FLAGS = {flag.name: flag for flag in ROWS}


def flags_of(command: str) -> tuple[Flag, ...]:
    """Returns the flags of "node" or "worker", in the order of its help."""
    return tuple(flag for flag in ROWS if command in flag.of)


def names_of(command: str) -> tuple[str, ...]:
    """Returns the names of its settings, in the order of its help."""
    return tuple(flag.name for flag in flags_of(command))


def group(name: str) -> tuple[str, ...]:
    """Returns the names of the flags that are read together."""
    return tuple(flag.name for flag in ROWS if flag.group == name)


def taken_by(command: str) -> frozenset[str]:
    """Returns the names of the settings that it takes on SIGHUP."""
    return frozenset(flag.name for flag in ROWS if command in flag.taken)


def help_of(flag: Flag, command: str) -> str:
    """Returns its help for a command, with the default."""
    text = flag.worker if flag.worker and command == WORKER else flag.help.replace("WHO", command)
    return text if flag.default is None or "[default: " in text else f"{text}  [default: {flag.default}]"
