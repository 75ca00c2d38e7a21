"""What a node and a remote worker are started with. docs/settings.md has what is set for all nodes."""

from __future__ import annotations

import click

from raftsched.cli.cluster.node_command import node as node_command
from raftsched.cli.cluster.worker_command import worker as worker_command
from raftsched.config import node as node_config
from raftsched.config import worker as worker_config
from scripts.website.reference.text import code, plain, table


def node() -> str:
    """Returns the page of what a node is started with."""
    return _started("a node", "node", node_command, node_config.SETTINGS)


def worker() -> str:
    """Returns the page of what a remote worker is started with."""
    return _started("a remote worker", "worker", worker_command, worker_config.SETTINGS)


def _started(whose: str, name: str, command: click.Command, known: tuple[str, ...]) -> str:
    context = click.Context(command, info_name=name)
    by_name = {parameter.name: parameter for parameter in command.params}
    rows = []
    for setting in known:
        option = by_name.get(setting)
        record = None if option is None else option.get_help_record(context)
        flag, text = record or ("", "")
        rows.append(
            (code(setting), code(f"RAFTSCHED_{setting.upper()}"), code(flag.strip()) if flag else "", plain(text))
        )
    about = (
        f"# Settings of {whose}\n\n`raftsched {name}` takes each as a flag, from a variable of the environment,"
        " or from the"
        " TOML file that `--config` names. Flags win over variables, variables over the file. A flag that may be"
        " repeated is"
        " a list in the file, and has commas in its variable. [The command](commands/" + name + ".md) has"
        " examples.\n\n"
    )
    return about + table(("in the file", "variable", "flag", ""), rows)
