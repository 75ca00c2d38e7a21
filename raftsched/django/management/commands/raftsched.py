"""Runs the command line of raftsched, with what the project's settings say: `manage.py raftsched ...`.

`node` and `worker` get the project's handlers, and `apply` the modules that declare jobs; all others, the cluster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import ENVIRONMENT_VARIABLE
from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.db import connections

from raftsched.client import program
from raftsched.django import conf, modules

_SAFE = ("call", "http")  # executors that run nothing but the project's functions
_SEEN = (
    "RAFTSCHED_SERVER",
    "RAFTSCHED_CA_FILE",
)  # variables by which runs find the cluster, where an operator set them
_OPTIONS = {  # argument of a client -> option of all commands
    "servers": "--server",
    "token": "--token",  # nosec B105
    "token_file": "--token-file",  # nosec B105
    "ca_file": "--ca-file",
    "client_cert": "--client-cert",
    "client_key": "--client-key",
}
_EPILOG = """\
commands:
  node          run a node of the cluster, with the project's functions
  worker        run the project's functions on a machine that is no node
  apply         make the jobs that tasks modules declare with @job; safe to repeat
  jobs, runs, logs, doctor, ...   all other commands of raftsched, for the cluster of the settings

examples:
  manage.py raftsched node
  manage.py raftsched node --id n2 --data /var/lib/shop/n2
  manage.py raftsched worker --queue mail
  manage.py raftsched apply --dry-run
  manage.py raftsched runs list --state FAILED
  manage.py raftsched node --help

Each setting comes from a flag, else from a variable RAFTSCHED_..., else from RAFTSCHED in the settings.

`node` and `worker` set Django up in the processes of runs, and offer the functions of the modules `tasks` of
INSTALLED_APPS (or of those that RAFTSCHED["handlers"] names). They run nothing else, but for requests by http, unless
--executors says so. Runs see DJANGO_SETTINGS_MODULE, RAFTSCHED_SERVER, and the variables that
RAFTSCHED["environment"] names. Each process of runs imports the project, so --slots says how often that is in memory.
SIGTERM and Ctrl-C end them in order: active runs have --grace to end. Code that changes is taken by the next run; a new
handler is taken at the next start.
"""


class _Help(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the epilog."""


class Command(BaseCommand):
    help = "Runs nodes and workers of raftsched, makes declared jobs, and speaks to the cluster."
    requires_system_checks = ("raftsched",)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, formatter_class=_Help, epilog=_EPILOG, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="A command and its arguments; see below."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        given = _without_settings(options["arguments"])
        if not given:
            self.print_help(sys.argv[0], "raftsched")
            raise CommandError("say a command, such as: manage.py raftsched node", returncode=2)
        command, rest = given[0], given[1:]
        wanted: list[str] | None = given
        if command in ("node", "worker"):
            wanted = _process(command, rest)
        elif command == "apply":
            wanted = _apply(rest)
            if wanted is None:
                self.stderr.write("no module declares a job; decorate functions with @job(name, cron=...)")
                return
        cluster = [] if command == "node" else _cluster()
        connections.close_all()  # a node lives for months, and needs none
        from raftsched.cli.main import main

        try:
            main([*cluster, *(wanted or ())], "manage.py raftsched")
        except SystemExit as ended:
            if ended.code not in (0, None):
                raise


def _without_settings(given: Sequence[str]) -> list[str]:
    """Returns the arguments without --settings, which manage.py has acted on wherever it stands."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    return parser.parse_known_args(given)[1]


def _process(command: str, rest: Sequence[str]) -> list[str]:
    """Returns the arguments of a node or worker; what the settings say of it is put into variables."""
    from raftsched.embedded.functions import import_path

    said = conf.given().get(command) or {}
    for name, value in said.items():
        if value is None:  # as os.environ.get gives it: not said
            continue
        os.environ.setdefault(f"RAFTSCHED_{name.upper()}", _as_text(name, value))
    _say_executors(rest)
    first = ["--python-first", "raftsched.django.processes", "--handlers", "raftsched.django.found"]
    for path in import_path():
        first += ["--pythonpath", str(path)]
    for variable in dict.fromkeys((ENVIRONMENT_VARIABLE, *_SEEN, *conf.environment())):
        first += ["--env-pass", variable]
    return [command, *first, *rest]


def _say_executors(rest: Sequence[str]) -> None:
    """Has a process offer the project's functions alone, where nobody says more. Of one that is root they would run as
    nobody, who cannot read the project; what is offered here is the project's own code, and runs as its user."""
    flags = {one.partition("=")[0] for one in rest}
    if flags & {"--executors", "--run-as", "--config"} or any(
        os.environ.get(name) for name in ("RAFTSCHED_EXECUTORS", "RAFTSCHED_RUN_AS", "RAFTSCHED_CONFIG")
    ):
        return
    os.environ["RAFTSCHED_EXECUTORS"] = ",".join(_SAFE)
    if os.geteuid() == 0:
        os.environ["RAFTSCHED_RUN_AS"] = "default=root"


def _apply(rest: Sequence[str]) -> list[str] | None:
    """Returns the arguments of `raftsched apply` with the modules that declare jobs, or with all modules where it may
    delete what a module does not declare any more; None: there is none."""
    from raftsched.client.declared import declared_by

    names = modules.import_all()
    if "--allow-empty" not in rest:
        names = [name for name in names if declared_by(name)]
    return ["apply", *names, *rest] if names else None


def _cluster() -> list[str]:
    """Returns the options by which all commands find the cluster of the settings; none where variables name one. They
    are no arguments of the process, so nobody else sees a token among them."""
    said = program.arguments(os.environ)
    found = []
    for argument, value in said.items():
        if argument in _OPTIONS:
            found += [_OPTIONS[argument], str(value)]
    return [*found, "--insecure"] if said.get("insecure") else found


def _as_text(name: str, value: Any) -> str:
    """Returns a setting as its variable has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return (os.pathsep if name == "pythonpath" else ",").join(map(str, value))
    return str(value)
