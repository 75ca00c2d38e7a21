"""`raftsched dev`: a whole cluster on this machine, for trying things out."""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.dev.state import CA_FILE, DEFAULT_DIR
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.errors import Exit
from raftsched.surface.plain import cluster as addresses

if TYPE_CHECKING:
    from raftsched.cli.dev.processes import DevCluster
    from raftsched.cli.dev.state import DevState, Member
    from raftsched.client.http import Client
    from raftsched.system.clock import Clock

_NEW_LEADER_S = 15.0
_data = click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Where everything is kept.  [default: ./.raftsched/dev]",
)  # fmt: skip


@click.group(cls=Group, invoke_without_command=True)
@click.option("--nodes", type=click.IntRange(1, 9), help="How many.  [default: 3]")
@_data
@click.option("--port", type=click.IntRange(1024, 65_400), help="HTTP from here on, Raft 100 above.  [default: 7401]")
@click.option("--tls/--no-tls", default=None, help="https, with certificates that are made in DIR.")
@click.option("--tracing", is_flag=True, help="Nodes send spans, as variables OTEL_... say; needs raftsched[otel].")
@click.option("--no-samples", is_flag=True, help="Start without sample jobs.")
@click.pass_context
def dev(
    ctx: click.Context,
    nodes: int | None,
    data: Path | None,
    port: int | None,
    tls: bool | None,
    tracing: bool,
    no_samples: bool,
) -> None:
    """Start a whole cluster on this machine, with sample jobs of every kind, until Ctrl-C.

    Nothing is left running afterwards, also when this command is killed. Data and logs stay in DIR, and the next
    'raftsched dev' goes on with them; remove DIR to begin anew.

    \b
      raftsched dev                      three nodes, http://127.0.0.1:7401 and up
      raftsched dev --nodes 5 --port 8401 --data /tmp/five
      raftsched dev --tls                https; this command line finds the authority by itself
      raftsched dev kill-leader          in another terminal: see the others take over
      raftsched dev status
      raftsched dev stop
    """
    ctx.obj = data
    if ctx.invoked_subcommand is None:
        sys.exit(_run(data or DEFAULT_DIR, nodes, port, tls, not no_samples, ("--tracing",) if tracing else ()))


@dev.command()
@_data
@click.pass_obj
def status(outer: Path | None, data: Path | None) -> None:
    """Say which nodes run, and who leads. Exit code 6 when nothing runs.

    \b
      raftsched dev status --data /tmp/five
    """
    directory = data or outer or DEFAULT_DIR
    state = _running(directory)
    cluster = _cluster(directory, state)
    leader = cluster.get("leader") if cluster else None
    for member in state.members:
        alive = member.process is not None and member.process.alive()
        role = "leads" if member.id == leader and alive else "runs" if alive else "down, about to be restarted"
        if _is_out(member, cluster):
            role += ", no member any more"
        pid = f"pid {member.process.pid}" if alive and member.process is not None else ""
        click.echo(f"{member.id}  {member.url}  {role}  {pid}".rstrip())
    click.echo(f"{leader} leads, term {cluster['term']}" if cluster and leader else "no leader at the moment")


@dev.command("kill-leader")
@_data
@click.pass_obj
def kill_leader(outer: Path | None, data: Path | None) -> None:
    """SIGKILL the node that leads, and say who takes over. It is restarted after a few seconds.

    \b
      raftsched dev kill-leader
    """
    from raftsched.system.clock import SystemClock

    clock = SystemClock()
    directory = data or outer or DEFAULT_DIR
    state = _running(directory)
    cluster = _cluster(directory, state)
    victim = next((m for m in state.members if cluster and m.id == cluster.get("leader")), None)
    if cluster is None or victim is None or victim.process is None:
        raise Failure("there is no leader at the moment; try again in a second", Exit.UNAVAILABLE)
    if not victim.process.send(signal.SIGKILL):
        raise Failure(f"{victim.id}, the leader, has just ended by itself; try again in a second", Exit.UNAVAILABLE)
    killed = clock.monotonic()
    click.echo(f"killed {victim.id} (pid {victim.process.pid}), the leader of term {cluster['term']}")
    pid = victim.process
    while clock.monotonic() < killed + _NEW_LEADER_S:
        pid.wait(0.2)
        now = _cluster(directory, state, without=victim if len(state.members) > 1 else None)
        if now and now.get("leader") and now["term"] > cluster["term"]:
            click.echo(f"{now['leader']} leads now, term {now['term']}, after {clock.monotonic() - killed:.1f} s")
            return
        select.select([], [], [], 0.1)
    raise Failure(f"no new leader within {_NEW_LEADER_S:g} s; see 'raftsched dev status' and the logs", Exit.TIMEOUT)


@dev.command()
@_data
@click.pass_obj
def stop(outer: Path | None, data: Path | None) -> None:
    """Stop the cluster and wait until nothing of it runs. Exit code 0 also when nothing did.

    \b
      raftsched dev stop --data /tmp/five
    """
    from raftsched.cli.dev.processes import STOP_S

    directory = data or outer or DEFAULT_DIR
    state = _load(directory)
    if state is None or not state.runs():
        click.echo(f"nothing runs in {directory}")
        return
    if state.supervisor is not None and state.supervisor.send(signal.SIGTERM) and not state.supervisor.wait(STOP_S + 5):
        state.supervisor.send(signal.SIGKILL)  # its nodes die with it
        state.supervisor.wait(5)
    for member in state.members:
        if member.process is not None and not member.process.wait(2):
            member.process.send(signal.SIGKILL)
            member.process.wait(5)
    click.echo("stopped")


def _load(directory: Path) -> DevState | None:
    from raftsched.cli.dev.state import DevState

    try:
        return DevState.load(directory)
    except ValueError as e:
        raise Failure(str(e)) from None


def _running(directory: Path) -> DevState:
    """The state of a cluster that runs in this directory; ends the command when there is none."""
    state = _load(directory)
    if state is None or not state.runs():
        raise Failure(
            f"no cluster runs in {directory}; start one with 'raftsched dev', or say --data", Exit.UNAVAILABLE
        )
    return state


def _client(directory: Path, members: list[Member], timeout: float) -> Client:
    from raftsched.client.http import Client
    from raftsched.client.servers import parse_servers
    from raftsched.client.trust import Trust

    data = {m.http_port: directory / m.id for m in members}
    ca_file = str(directory / CA_FILE) if any(m.tls for m in members) else None
    return Client(
        parse_servers(",".join(m.url for m in members)),
        timeout=timeout,
        token=lambda s: _token(data[s.port]),
        trust=Trust(ca_file),
    )


def _token(data: Path) -> str | None:
    """Returns the secret of the node with this data directory: users who try out tokens still see their cluster."""
    from raftsched.security.local_token import read_local_token

    try:
        return read_local_token(data)
    except OSError:
        return None


def _cluster(directory: Path, state: DevState, without: Member | None = None) -> dict[str, Any] | None:
    """The newest view any node has; None when none answers."""
    from raftsched.client.errors import ClientError

    views: list[dict[str, Any]] = []
    for member in state.members:
        if member is not without:
            try:
                views.append(_client(directory, [member], 2.0).get(addresses.STATUS))
            except ClientError:
                continue
    return max(views, key=lambda v: (v.get("term") or 0, v.get("leader") is not None), default=None)


def _run(
    directory: Path, nodes: int | None, port: int | None, tls: bool | None, samples: bool, flags: Sequence[str]
) -> int:
    from raftsched.cli.dev.processes import DevCluster, Interrupted
    from raftsched.security.private import UMASK
    from raftsched.system.clock import SystemClock

    try:
        umask = os.umask(UMASK)  # the nodes get it back
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (directory, *directory.glob("dev.*"), *directory.glob("*.log")):
            if (directory / "dev.json").exists():
                path.chmod(path.stat().st_mode & ~UMASK & 0o7777)
        lock = (directory / "dev.lock").open("a")
    except OSError as e:
        raise Failure(f"cannot use {directory}: {(e.strerror or str(e)).lower()}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"a cluster runs in {directory} already; see 'raftsched dev status', or say --data") from None
        clock = SystemClock()
        cluster = DevCluster(
            _state(directory, nodes, port, tls), directory.absolute(), clock, _say, umask=umask, flags=flags
        )
        with cluster:
            try:
                _serve(cluster, clock, directory, samples)
            except Interrupted:
                _say("stopping ... (again Ctrl-C: at once)")
        _say(f"stopped; data and logs are in {directory}")
    os.umask(umask)
    return 0


def _state(directory: Path, nodes: int | None, port: int | None, tls: bool | None) -> DevState:
    """A new cluster, or the one the directory holds: its members and their ports are in its log and stay."""
    from raftsched.cli.dev.state import DevState

    old = _load(directory)
    if old is None or not any((directory / m.id).exists() for m in old.members):
        return DevState.new(nodes or 3, port or 7401, tls=bool(tls))
    if nodes not in (None, len(old.members)) or port not in (None, old.port):
        raise Failure(
            f"{directory} holds a cluster of {len(old.members)} nodes from port {old.port}: leave --nodes and --port"
            " out to go on with it, say another --data, or remove the directory",
            Exit.USAGE,
        )
    return DevState.new(len(old.members), old.port, tls=old.tls if tls is None else tls)


def _say(text: str) -> None:
    """Lines for the person at the terminal; a closed terminal must not keep the cluster from being stopped."""
    try:
        click.echo(text)
        sys.stdout.flush()
    except OSError:
        pass


def _serve(cluster: DevCluster, clock: Clock, directory: Path, samples: bool) -> None:
    from raftsched.cli.dev.samples import NAMESPACE, Samples
    from raftsched.client.errors import ClientError

    members = cluster.state.members
    cluster.start()
    _say(f"starting {len(members)} node{'s' if len(members) != 1 else ''} in {directory} (pid {os.getpid()}) ...")
    told = 0

    def progress(ready: int) -> None:
        nonlocal told
        if ready > told:
            told = ready
            _say(f"  {ready} of {len(members)} ready")

    out: set[str] = set()

    def ready(member: Member) -> bool:
        if _ready(directory, member):
            return True
        if not _is_out(member, _cluster(directory, cluster.state, without=member)):
            return False
        out.add(member.id)
        return True

    cluster.wait_ready(ready, progress)
    _say(f"the page: {next(m.url for m in members if m.id not in out)}/ui/")
    for member in members:
        gone = "  (no member any more)" if member.id in out else ""
        _say(f"  {member.id}  {member.url}  log {directory / (member.id + '.log')}{gone}")
    members = [member for member in members if member.id not in out]
    if (ca_file := cluster.state.ca_file(directory)) is not None:
        _say(f"  curl --cacert {shlex.quote(str(ca_file))} {members[0].url}{addresses.STATUS}")
    client = _client(directory, members, 2.0)
    shown = Samples(client, clock, _say)
    if samples:
        try:
            shown.create(members[0].url)
            _say(f"sample jobs are in the namespace {NAMESPACE!r}; their runs, as they end:")
        except ClientError as e:
            _say(f"the sample jobs could not be created: {e.detail}")
    else:
        _say("ready; Ctrl-C stops everything")
    leader: tuple[str, int] | None = None

    def tick() -> None:
        nonlocal leader
        try:
            view = client.get(addresses.STATUS)
        except ClientError:
            view = {}
        now = (str(view["leader"]), int(view["term"])) if view.get("leader") else leader
        if now is not None and (leader is None or now[1] > leader[1]):
            leader = now
            _say(f"{now[0]} leads, term {now[1]}")
        if samples:
            shown.tell()

    cluster.run(tick)


def _ready(directory: Path, member: Member) -> bool:
    from raftsched.client.errors import ClientError

    try:
        return _client(directory, [member], 1.0).request("GET", "/readyz").status == 200
    except ClientError:
        return False


def _is_out(member: Member, view: dict[str, Any] | None) -> bool:
    """Returns True when somebody has taken the node out of the cluster, as the others see it."""
    known = {node["id"] for node in view["nodes"]} if view and view.get("leader") else set()
    return bool(known) and member.id not in known
