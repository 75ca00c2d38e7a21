"""The settings of the cluster, of a node and of a remote worker."""

from __future__ import annotations

import click

from raftsched.api.resources.settings_schema import TEXTS, is_duration, setting_name
from raftsched.cli.cluster.node import node as node_command
from raftsched.cli.cluster.worker import worker as worker_command
from raftsched.config import node as node_config
from raftsched.config import worker as worker_config
from raftsched.core.cluster import Settings
from raftsched.core.limits import SETTINGS
from raftsched.quantities import format_duration
from scripts.website.reference.text import code, plain, table


def cluster() -> str:
    """Returns the page of what is set for all nodes at once."""
    rows = []
    for field, bounds in SETTINGS.items():
        name = setting_name(field)
        values = [getattr(Settings(), field), *bounds]
        default, least, most = (format_duration(v) if is_duration(field) else f"{v:,}" for v in values)
        rows.append((code(name), default, f"{least} to {most}", plain(TEXTS[name])))
    about = (
        "# Settings of the cluster\n\nThey are part of the replicated state: set at any node, they hold on all,"
        " and outlive"
        " restarts and leaders. `raftsched cluster settings set NAME=VALUE` changes some, `PATCH"
        " /v1/cluster/settings` does"
        " the same; `default`, or null, gives a default back.\n\n"
    )
    return about + table(("setting", "default", "from, to", ""), sorted(rows))


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
