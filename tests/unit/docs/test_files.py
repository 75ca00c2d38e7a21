"""Every option that names a file which may be replaced is in the page's table, which says when it is read again."""

from __future__ import annotations

import re
from pathlib import Path

import click

from raftsched.cli.backup.run import run as backup_run
from raftsched.cli.cluster.node_command import node
from raftsched.cli.cluster.worker_command import worker
from raftsched.cli.main import cli
from raftsched.config.node import SETTINGS as OF_NODE
from raftsched.config.worker import SETTINGS as OF_WORKER
from tests.support.examples import ROOT
from tests.support.modules import MODULES

PAGE = (ROOT / "docs" / "nodes.md").read_text()
_SETTING = re.compile(r".*_(file|cert|key|ca|credentials)")
_VARIABLE = re.compile(r'"((?:RAFTSCHED|AWS|SSL)_[A-Z_]*(?:FILE|CERT|KEY|CA|BUNDLE|CONFIG))"')
# No files: what they name is the secret itself, or is said in words.
_CALLED = {"key_file": "cluster_key_file", "own_ca": "ca_file", "own_cert": "client_cert", "own_key": "client_key"}
NO_FILES = {"AWS_ACCESS_KEY_ID"}
# Of runs, which get their own: the package does not read them.
NOT_READ = {"RAFTSCHED_REPORT_FILE", "AWS_CONFIG_FILE"}


def table() -> set[str]:
    part = PAGE.partition("\n| file | read again |\n")[2].partition("\n\n")[0]
    return {name for row in part.splitlines()[1:] for name in re.findall(r"`(\w+)`", row)}


def options(command: click.Command) -> set[str]:
    """Names of the options of a command that are followed by a file's name, as settings are called."""
    return {
        param.name
        for param in command.params
        if isinstance(param, click.Option) and param.metavar == "FILE" and param.name is not None
    }


def test_the_options_of_what_runs_for_long_are_in_the_table() -> None:
    found = {name for command in (cli, node, worker, backup_run) for name in options(command)}
    found = {_CALLED.get(name, name.removeprefix("own_")) for name in found}
    settings = {name for name in (*OF_NODE, *OF_WORKER) if _SETTING.fullmatch(name)}
    missing = (found | settings) - table()
    assert not missing, f"docs/nodes.md does not say when these are read again: {missing}"


def test_the_variables_that_name_files_are_in_the_table() -> None:
    found: set[str] = set()
    for path in MODULES:
        found |= set(_VARIABLE.findall(Path(path).read_text()))
    missing = found - table() - NO_FILES - NOT_READ
    assert not missing, f"docs/nodes.md does not say when these are read again: {missing}"


def test_what_the_table_names_is_there() -> None:
    known = {*OF_NODE, *OF_WORKER, *options(cli), *options(node), *options(worker), "identity"}
    source = "\n".join(Path(path).read_text() for path in MODULES)
    assert not {name for name in table() if name not in known and f'"{name}"' not in source} - {
        "RAFTSCHED_TOKEN_FILE",  # read as each setting's variable is
        "AWS_SHARED_CREDENTIALS_FILE",  # read by the package minio
    }
