"""The rows of flags: what is made of them, and that each is read by somebody."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from raftsched import config
from raftsched.cli.cluster.node_command import node
from raftsched.cli.cluster.worker_command import worker
from raftsched.config.flags import BOTH, FLAGS, METAVARS, NODE, ROWS, WORKER, Flag, flags_of, group, help_of
from raftsched.config.node import NodeConfig
from raftsched.config.reading import KINDS, default_of, value_of
from raftsched.config.run_options import RunOptions
from raftsched.config.values import ConfigError
from raftsched.config.worker import WorkerConfig

COMMANDS = {NODE: node, WORKER: worker}
MODULES = [path for path in Path(config.__file__).parent.glob("*.py") if path.name != "flags.py"]
NUMBERS = [flag for flag in ROWS if flag.kind in ("number", "size", "duration")]


@pytest.mark.parametrize("command", [NODE, WORKER])
def test_each_is_an_option_of_its_commands(command: str) -> None:
    options = {one.name: one for one in COMMANDS[command].params if isinstance(one, click.Option)}
    assert list(options) == [
        name for flag in flags_of(command) for name in (flag.name, *_beside(flag, command))
    ] + ["config"]  # fmt: skip
    for flag in flags_of(command):
        option = options[flag.name]
        assert (option.is_flag, option.multiple) == (flag.kind == "switch", flag.repeated)
        assert option.help == help_of(flag, command)


def _beside(flag: Flag, command: str) -> tuple[str, ...]:
    return ("more_labels",) if (flag.name, command) == ("labels", WORKER) else ()


def test_each_name_and_kind_is_known_once() -> None:
    assert len(FLAGS) == len(ROWS)
    assert {flag.kind for flag in ROWS} == KINDS.keys()
    assert all(flag.switch or flag.metavar or flag.kind in METAVARS for flag in ROWS)


def test_each_is_read() -> None:
    """As a field of a configuration, by the kind alone, or by its name in some module of the room."""
    taken = {one.name for of in (NodeConfig, WorkerConfig) for one in fields(of)} | {*RunOptions.__struct_fields__}
    text = "\n".join(path.read_text() for path in MODULES)
    by_name = {*re.findall(r'"(\w+)"', text), *group("allow")}
    assert [flag.name for flag in ROWS if flag.field not in taken and flag.name not in by_name] == []


@pytest.mark.parametrize("flag", NUMBERS, ids=lambda flag: flag.name)
def test_a_number_has_bounds_and_its_default_lies_within(flag: Flag) -> None:
    least, most = flag.bounds
    assert 0 <= least < most
    default = default_of(flag.name)
    assert default is None or least <= default <= most
    with pytest.raises(ConfigError, match=rf"^{flag.name} (must be|.* is)"):
        value_of(flag.name, {flag.name: f"{most + 1}{'ms' if flag.kind == 'duration' else ''}"})


def test_bounds_and_defaults_in_words_are_those_of_the_row() -> None:
    said = [(flag, found) for flag in ROWS if (found := re.search(r"(\d+) to (\d+)", flag.help))]
    assert [flag.name for flag, _ in said] == ["nice"]
    assert all((int(found[1]), int(found[2])) == flag.bounds for flag, found in said)
    assert "[default: 32 for each CPU]" in FLAGS["slots"].help


def test_options_of_runs_are_flags_of_both() -> None:
    assert all(FLAGS[name].of == BOTH for name in RunOptions.__struct_fields__)
