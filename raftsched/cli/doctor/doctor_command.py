"""`raftsched doctor`: what is wrong or soon will be, and what to do about it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.doctor.doc_links import docs_of, document_address
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option, remote
from raftsched.cli.terminal.output import print_json, print_prose, print_table
from raftsched.cli.terminal.table import Column
from raftsched.doctor import CHECKS, Finding, of_checks, worst, worst_first
from raftsched.errors import Exit
from raftsched.quantities import size_text

if TYPE_CHECKING:
    from raftsched.client.http import Client

_COLUMNS = [
    Column("STATE", lambda f: f["state"], "state", 1),
    Column("CHECK", lambda f: f["check"], "id", 2),
    Column("FOUND", lambda f: f["detail"], "prose", 3),
]
_CHECK = click.Choice(list(CHECKS))


@click.command(cls=Command)
@click.option(
    "--local", metavar="DIR", type=click.Path(path_type=Path), help="Look at a node's data directory, and ask no node."
)
@click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="The same, with all that a node's settings name."
)
@click.option(
    "--log", metavar="FILE", type=click.Path(path_type=Path), help="The node's log, if not in systemd's journal."
)
@click.option(
    "--bundle", metavar="FILE", type=click.Path(path_type=Path), help="Also write a .tar.gz for people who help you."
)
@click.option("--with-jobs", is_flag=True, help="With --bundle: what jobs are called, and when they run.")
@click.option("--only", metavar="CHECK", type=_CHECK, multiple=True, help="Show this check only; may be repeated.")
@click.option("--skip", metavar="CHECK", type=_CHECK, multiple=True, help="Leave this check out; may be repeated.")
@click.option("--all", "-v", "is_all", is_flag=True, help="Show the checks that are ok, too.")
@format_option
@remote
def doctor(
    client: Client,
    local: Path | None,
    config: Path | None,
    log: Path | None,
    bundle: Path | None,
    with_jobs: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    is_all: bool,
    fmt: str,
) -> None:
    """Look at a cluster and at this machine, and say what is wrong and what to do about it.

    Each check is ok, warn (it works, but not as it should, or not for long) or fail. Those that are ok are counted, and
    shown with --all or --only. The exit code is 1 when one fails, 0 otherwise. docs/doctor.md lists all checks. It
    takes a few seconds, also when no node answers.

    \b
      raftsched doctor
      raftsched doctor --all
      raftsched doctor --only certificates --only tokens
      raftsched doctor --skip clock-service -o name          # the checks that are not ok
      raftsched --server https://10.0.0.2:7401 doctor -o json | jq '.items[] | select(.state != "ok")'

    \b
    On the machine of a node, before it is started for the first time, or when it does not start:
      raftsched doctor --local /var/lib/raftsched
      raftsched doctor --config /etc/raftsched/node.toml

    \b
    For somebody who is to help from afar (status, settings, metrics, last lines of the log; no secrets):
      raftsched doctor --bundle raftsched.tar.gz
    """
    from raftsched.cli.doctor.log_lines import look_at_log, read_lines

    if with_jobs and bundle is None:
        raise click.UsageError("--with-jobs goes with --bundle")
    if log is not None and local is None and config is None and bundle is None:
        raise click.UsageError("--log goes with --local, --config or --bundle")
    asks = local is None and config is None
    lines = None if asks and bundle is None else read_lines(log)
    settings: dict[str, Any] | None = None
    if asks:
        from raftsched.cli.doctor.guarded import guarded
        from raftsched.cli.doctor.machine import look_at_machine
        from raftsched.cli.doctor.whole_cluster import look_at_cluster

        here = [replace(one, detail=f"this machine: {one.detail}") for one in look_at_machine()]
        found = [*look_at_cluster(client), *here, *guarded("log-lines", lambda: look_at_log(lines))]
    else:
        from raftsched.cli.doctor.one_node import look_at_one_node, settings_of, shown_settings

        read = settings_of(config)
        settings = None if read is None or isinstance(read, Finding) else shown_settings(read)
        found = list(look_at_one_node(local, read, lines))
    findings = worst_first(of_checks(found, only, skip))
    show(findings, fmt, is_all=is_all or bool(only), docs=docs_of(client) if asks and fmt == "table" else "")
    if bundle is not None:
        from raftsched.cli.doctor.bundle import write_bundle

        size = write_bundle(
            bundle,
            [as_json(finding) for finding in found],
            lines,
            client if asks else None,
            settings,
            with_jobs=with_jobs,
        )
        click.echo(f"{bundle} has {size_text(size)}; look into it before you send it: tar tzf {bundle}", err=True)
    if worst(findings) == "fail":
        sys.exit(int(Exit.ERROR))


def show(findings: list[Finding], fmt: str, *, is_all: bool = True, docs: str = "") -> None:
    """Prints the findings in the format that -o names. `is_all`: those too that are ok. `docs`: where the documents are
    served; empty: nowhere."""
    if fmt == "json":
        print_json({"state": worst(findings), "items": [as_json(finding) for finding in findings]})
    elif fmt == "name":
        for check in dict.fromkeys(finding.check for finding in findings if finding.state != "ok"):
            click.echo(check)
    else:
        _print(findings, is_all=is_all, docs=docs)


def as_json(finding: Finding) -> dict[str, object]:
    """Returns it as `GET /v1/cluster/doctor` shows it."""
    return {
        "check": finding.check,
        "state": finding.state,
        "detail": finding.detail,
        "do": finding.do or None,
        "nodes": list(finding.nodes),
        "why": finding.why,
        "see": finding.see,
    }


def _print(findings: list[Finding], *, is_all: bool, docs: str) -> None:
    shown = [finding for finding in findings if is_all or finding.state != "ok"]
    if shown:
        print_table(_COLUMNS, [as_json(finding) for finding in shown])
    left_out = len(findings) - len(shown)
    if left_out:
        whole = "check is" if left_out == 1 else "checks are"
        click.echo(f"{left_out} {'other ' if shown else ''}{whole} ok; --all shows what they found")
    for finding in shown:
        if finding.do:
            print_prose(f"\n{finding.check}: {finding.do}")
            if finding.why:
                print_prose(f"  why: {finding.why}")
            if finding.see:
                click.echo(f"  see: {document_address(finding.see, docs)}")
