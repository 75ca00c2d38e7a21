"""The commands `raftsched node` and `raftsched worker`: their options, made of their flags, and how they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import in_section
from raftsched.config.flags import METAVARS, NODE, WORKER, Flag, flags_of, help_of, names_of
from raftsched.errors import Exit, StartupError

# The sections of the help, each up to the flag that begins the next one, in the order of flags.py.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    NODE: {
        "id": "Which node it is",
        "cluster_key_file": "Keys and certificates between nodes",
        "slots": "What it takes",
        "join": "Log and elections",
        "output_keep": "What runs print",
        "grace": "How it ends",
        "connections_max": "HTTP",
        "weight": "How it runs jobs",
        "log_format": "Its own log and traces",
        "executors": "What jobs may do",
    },
    WORKER: {
        "server": "Which worker it is",
        "slots": "What it takes",
        "weight": "How it runs jobs",
        "log_format": "Its own log and traces",
        "executors": "What jobs may do",
    },
}

CONFIG = click.option("--config", metavar="FILE", envvar="RAFTSCHED_CONFIG", help="TOML file with the same settings.")


def options_of(command: str, **after: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Returns the options of "node" or "worker", in the order of the help. `after`: further ones, each by the name of
    the flag that it follows."""
    found, title = [], ""
    for flag in flags_of(command):
        title = SECTIONS[command].get(flag.name, title)
        found.append(in_section(title, _option(flag, command)))
        if flag.name in after:
            found.append(in_section(title, after[flag.name]))
    return [*found, in_section(next(iter(SECTIONS[command].values())), CONFIG)]


def _option(flag: Flag, command: str) -> Callable[[Any], Any]:
    said = f"--{(flag.option or flag.name).replace('_', '-')}"
    if flag.switch:
        return click.option(said, flag.name, is_flag=True, help=help_of(flag, command))
    metavar = flag.metavar or METAVARS[flag.kind]
    return click.option(said, flag.name, metavar=metavar, multiple=flag.repeated, help=help_of(flag, command))


def run_configured(
    command: str,
    flags: Mapping[str, Any],
    config: str | None,
    build: Callable[[Mapping[str, Any]], Any],
    start: Callable[[Any, Any], int],
) -> None:
    """Runs what flags, variables and the file `config` say, and exits with its code. `build`: makes a configuration of
    settings. `start`: gets it and its Source, and returns when it has ended."""
    from raftsched.config.values import ConfigError
    from raftsched.config.work import merged
    from raftsched.embedded.reload import Source

    environ = dict(os.environ)

    def read() -> dict[str, Any]:
        return merged(names_of(command), flags, environ, Path(config) if config else None)

    try:
        source = Source(read, build, read(), config)
        loaded = build(source.settings)
    except ConfigError as e:
        raise Failure(str(e), e.exit) from None
    try:
        code = start(loaded, source)
    except StartupError as e:
        raise Failure(e.detail, Exit.ERROR) from None
    sys.exit(code)
