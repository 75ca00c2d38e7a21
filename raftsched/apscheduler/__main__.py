"""Is the command `python -m raftsched.apscheduler`, which writes the jobs of a job store as JSON."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout

import click

from raftsched.apscheduler.stores import export, open_store


@click.group()
def main() -> None:
    """Move jobs of APScheduler 3 to raftsched."""


@main.command("export")
@click.argument("url", metavar="STORE-URL")
@click.option(
    "--main", "module", metavar="MODULE", help="The module that functions of the main script are imported from."
)
@click.option("--table", metavar="NAME", help="Of the jobs: the table, the collection of MongoDB or the key of Redis.")
def export_(url: str, module: str | None, table: str | None) -> None:
    """Write the jobs of a job store as JSON, for raftsched jobs import. Nothing in the store is changed.

    STORE-URL is that of SQLAlchemy (sqlite:///jobs.sqlite, postgresql://...), redis://HOST:PORT/DB or mongodb://HOST.

    The store holds pickles, and to read a pickle runs what it says: export only a store that you trust, as the user
    that the scheduler has. Run it in the directory of the program, so that its functions are found, and their arguments
    get their names. The program may go on meanwhile.

    \b
      python -m raftsched.apscheduler export sqlite:///jobs.sqlite > jobs.json
      raftsched jobs import jobs.json --handler-template 'python:{module}:{function}' --dry-run
    """
    try:
        with redirect_stdout(sys.stderr):  # what the program prints when it is imported is none of the export
            found = export(open_store(url, table), main=module)
    except ImportError as error:
        raise click.ClickException(f"{error}: what this store needs is not installed") from None
    except Exception as error:  # of any database
        raise click.ClickException(
            f"{_shown(url)} cannot be read: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from None
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _shown(url: str) -> str:
    """Returns the URL without a password."""
    user, at, place = url.rpartition("@")
    if not at or "://" not in user:
        return url
    return f"{user[: user.index('://') + 3]}***@{place}"


if __name__ == "__main__":
    main(prog_name="python -m raftsched.apscheduler")
