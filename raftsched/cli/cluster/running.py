"""The options of `raftsched node` and `raftsched worker`, made of their flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from raftsched.config.flags import METAVARS, Flag, flags_of, help_of

CONFIG = click.option("--config", metavar="FILE", envvar="RAFTSCHED_CONFIG", help="TOML file with the same settings.")


def options_of(command: str, **after: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Returns the options of "node" or "worker", in the order of the help. `after`: further ones, each by the name of
    the flag that it follows."""
    found = []
    for flag in flags_of(command):
        found.append(_option(flag, command))
        if flag.name in after:
            found.append(after[flag.name])
    return [*found, CONFIG]


def _option(flag: Flag, command: str) -> Callable[[Any], Any]:
    said = f"--{(flag.option or flag.name).replace('_', '-')}"
    if flag.switch:
        return click.option(said, flag.name, is_flag=True, help=help_of(flag, command))
    metavar = flag.metavar or METAVARS[flag.kind]
    return click.option(said, flag.name, metavar=metavar, multiple=flag.repeated, help=help_of(flag, command))
