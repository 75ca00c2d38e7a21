"""`raftsched keys`: the keys that a cluster's nodes prove to each other with. No node is asked."""

from __future__ import annotations

from pathlib import Path

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.errors import Exit
from raftsched.security.keyring import new_key, read_keyring, write_new


@click.group(cls=Group)
def keys() -> None:
    """Make and check cluster keys, which prove that a node belongs to the cluster, and seal its secrets.

    A node alone and 'raftsched dev' make theirs by themselves. Several nodes get the same file: --cluster-key-file.
    """


@keys.command()
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="Write it there, for you alone.")
def new(file: Path | None) -> None:
    """Make a key of 256 random bits, and print it or write it into a file that is not there yet.

    \b
      raftsched keys new --file cluster.key
      raftsched keys new | ssh n2 'umask 077; cat > /etc/raftsched/cluster.key'

    A file may hold several, one a line: the first is used, all are accepted. docs/secrets.md says how a key is changed
    without a stop.
    """
    key = new_key()
    if file is None:
        click.echo(key)
        return
    try:
        write_new(file, key)
    except FileExistsError:
        raise Failure(
            f"{file} is there already, and a key is never overwritten: what is sealed with it could not be read any"
            " more. Say another FILE",
            Exit.CONFLICT,
        ) from None
    except OSError as error:
        raise Failure(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"{file}: a new key, readable by you alone. Copy it to every node and say --cluster-key-file")


@keys.command()
@click.option(
    "--file", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The file of the identity."
)
def recipient(file: Path) -> None:
    """Print the recipient for sealed backups. Makes the identity that opens them when FILE is not there yet.

    \b
      raftsched keys recipient --file /safe/backup.identity
      raftsched cluster backup --recipient rsr_... raftsched.backup
      raftsched cluster restore raftsched.backup --identity /safe/backup.identity --data ...

    Keep FILE where no node is: what was sealed for a lost identity is lost.
    """
    from raftsched.security.sealed_backup import new_identity, read_identity, recipient_of

    if not file.exists():
        identity, public = new_identity()
        try:
            write_new(file, f"# opens what was sealed for {public}\n{identity}".encode())
        except OSError as error:
            raise Failure(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from None
    click.echo(recipient_of(read_identity(file)))


@keys.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
def check(file: Path) -> None:
    """Check that a node would accept this key file, and list its keys by ids that reveal nothing of them.

    \b
      raftsched keys check /etc/raftsched/cluster.key

    Two nodes have the same keys when this prints the same for both. Exit code 1: what is wrong is said.
    """
    for number, name in enumerate(read_keyring(file).ids()):
        click.echo(f"{name}  {'accepted' if number else 'used'}")
