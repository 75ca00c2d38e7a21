"""`raftsched certs`: certificates for nodes, by an authority of the cluster's own. No node is asked."""

from __future__ import annotations

import os
from pathlib import Path

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.errors import Exit
from raftsched.security import certificates
from raftsched.security.certificates import CA_DAYS, NODE_DAYS, Pair
from raftsched.system.clock import SystemClock
from raftsched.system.regular_files import read_regular

_DAYS = click.IntRange(1, 36_500)
_WHERE = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=Path("certs"),
    show_default=True,
    metavar="DIR",
    help="Where the files are.",
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@click.group(cls=Group)
def certs() -> None:
    """Make certificates, by which nodes know each other, and users know nodes.

    \b
    On one machine, which keeps what signs them (better: on none of the nodes):
      raftsched certs init --cluster prod
      raftsched certs node n1 --host n1.example.com --host 10.0.0.1

    The key handshake protects what nodes say to each other without any of this. With certificates, the cluster key
    alone does not make a machine a node.
    """


@certs.command()
@click.option("--cluster", default="raftsched", show_default=True, metavar="NAME", help="The name of the cluster.")
@click.option("--days", type=_DAYS, default=CA_DAYS, show_default=True, help="How long it is good.")
@_WHERE
def init(cluster: str, days: int, directory: Path) -> None:
    """Make the authority that signs the certificates of all nodes: DIR/ca.crt and DIR/ca.key.

    \b
      raftsched certs init --cluster prod

    Nothing is overwritten. To change the authority, make another one in another DIR, put both ca.crt into one file,
    give that to all nodes, and then each node its new certificate.
    """
    pair = certificates.make_ca(cluster, SystemClock().wall_ms(), days)
    _write(directory, "ca", pair)
    click.echo(
        f"{directory}/ca.key signs for cluster {cluster!r}: keep it where only you can read it, on none of the nodes.\n"
        f"{directory}/ca.crt goes to every node (--raft-ca) and to users of the API (--ca-file).\n"
        f"Next: raftsched certs node n1 --host NAME-OR-ADDRESS{_said(directory)}"
    )


@certs.command()
@click.argument("name", metavar="NAME")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="By which users call it; may be repeated.")
@click.option("--days", type=_DAYS, default=NODE_DAYS, show_default=True, help="How long it is good.")
@_WHERE
def node(name: str, hosts: tuple[str, ...], days: int, directory: Path) -> None:
    """Make the certificate of the node with this id: DIR/NAME.crt and DIR/NAME.key.

    \b
      raftsched certs node n1 --host n1.example.com --host 10.0.0.1
      raftsched node --id n1 ... --raft-cert n1.crt --raft-key n1.key --raft-ca ca.crt \\
                                 --tls-cert n1.crt --tls-key n1.key

    localhost, 127.0.0.1 and ::1 are among the hosts. A node reads its files again when they change: to renew one, make
    it in another DIR with a copy of ca.crt and ca.key, and move it over the old one.
    """
    from raftsched.config.node import build
    from raftsched.config.values import ConfigError

    try:
        build({"id": name, "data": "."})
    except ConfigError as error:
        raise Failure(str(error), Exit.USAGE) from None
    ca = Pair(_read(directory / "ca.crt", directory), _read(directory / "ca.key", directory))
    try:
        cluster = certificates.identities_of(ca.certificate)[0][0]
        pair = certificates.make_node(ca, cluster, name, [*hosts, *LOOPBACK], SystemClock().wall_ms(), days)
    except (ValueError, IndexError, TypeError) as error:
        why = str(error) or "it was not made by 'raftsched certs init'"
        raise Failure(
            f"nothing can be signed with {directory}/ca.crt and ca.key for {', '.join(hosts)}: {why}"
        ) from None
    _write(directory, name, pair)
    file = directory / name
    click.echo(
        f"{file}.crt and {file}.key are for node {name!r} of cluster {cluster!r}, for {days} days.\n"
        f"Copy them with {directory}/ca.crt to its machine, readable by the node's user only, and start it with\n"
        f"  --raft-cert {name}.crt --raft-key {name}.key --raft-ca ca.crt\n"
        f"and, for users of its API,\n"
        f"  --tls-cert {name}.crt --tls-key {name}.key"
    )


def _said(directory: Path) -> str:
    return "" if directory == Path("certs") else f" --dir {directory}"


def _read(file: Path, directory: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise Failure(
            f"cannot read {file}: {(error.strerror or str(error)).lower()}; make the authority first: raftsched certs"
            f" init{_said(directory)}"
        ) from None


def _write(directory: Path, name: str, pair: Pair) -> None:
    """Writes both files, for their owner alone; none when one of them exists."""
    files = ((directory / f"{name}.key", pair.key), (directory / f"{name}.crt", pair.certificate))
    made: list[Path] = []
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, content in files:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as new:
                made.append(file)
                new.write(content)
                new.flush()
                os.fsync(new.fileno())
    except OSError as error:
        for file in made:
            file.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise Failure(
                f"{error.filename} is there already and is not overwritten; say another --dir, or move it away",
                Exit.CONFLICT,
            ) from None
        raise Failure(f"cannot write into {directory}: {(error.strerror or str(error)).lower()}") from None
