"""`raftsched doctor --local` and `--config`: all that is to be seen of one node on its machine, up or down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from raftsched.cli.doctor.configured import look_at_settings, read_settings
from raftsched.cli.doctor.directory import look_at_directory, runs_on
from raftsched.cli.doctor.guarded import guarded
from raftsched.cli.doctor.log_lines import look_at_log
from raftsched.cli.doctor.machine import look_at_machine
from raftsched.config.node import NodeConfig
from raftsched.doctor import Finding


def settings_of(config: Path | None) -> NodeConfig | Finding | None:
    """Returns the settings of a node in a file, or what is wrong with them. None: no file is named."""
    return None if config is None else read_settings(config, os.environ)


def look_at_one_node(
    data: Path | None, settings: NodeConfig | Finding | None, lines: Sequence[str] | None
) -> Iterator[Finding]:
    """Gives the findings. `data`: its directory; None: as the settings say. `lines`: the last ones of its log."""
    known = settings if isinstance(settings, NodeConfig) else None
    if isinstance(settings, Finding):
        yield settings
    place = data if data is not None else None if known is None else known.data
    if place is not None:
        key_file = None if known is None else known.cluster_key_file
        yield from guarded("data", lambda: look_at_directory(place, key_file))
    if known is not None:
        yield from guarded("settings", lambda: look_at_settings(known, runs=runs_on(known.data)))
    yield from look_at_machine()
    yield from guarded("log-lines", lambda: look_at_log(lines))


def shown_settings(config: NodeConfig) -> dict[str, Any]:
    """Returns the settings as text: names of files, addresses, bounds. There is no secret among them."""
    return {name: str(value) for name, value in vars(config).items()}
