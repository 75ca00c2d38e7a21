"""`raftsched jobs apply`: what a file says is what is there."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.jobs import pruning
from raftsched.cli.jobs.comparing import compare, compare_all, reason_of
from raftsched.cli.jobs.job_files import Wanted, files_option, namespace_option, read_wanted
from raftsched.cli.jobs.putting import Changed, each, put
from raftsched.cli.jobs.warned import print_warnings
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option, job_ref, remote
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.progress import Progress, progress_option

if TYPE_CHECKING:
    from raftsched.client.http import Client

_WOULD = {"created": "would be created", "changed": "would be changed", "unchanged": "unchanged"}
_NOT_SENT = "not sent"


class _Outcomes:
    """Collects what became of the jobs of the files, in their order."""

    def __init__(self, found: Sequence[Wanted]) -> None:
        self._places = {wanted.path: place for place, wanted in enumerate(found)}
        self._told: list[dict[str, Any] | None] = [None] * len(found)
        self._codes = [0] * len(found)

    def tell(self, wanted: Wanted, result: str, reason: str | None = None, code: int = 0) -> None:
        place = self._places[wanted.path]
        more = {} if reason is None else {"reason": reason}
        file = {"file": wanted.place} if result == "refused" else {}
        self._told[place] = {**wanted.where, "result": result, **more, **file}
        self._codes[place] = code

    @property
    def code(self) -> int:
        """The exit code of the first refusal, else 0."""
        return next(filter(None, self._codes), 0)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [result for result in self._told if result is not None]


@click.command(cls=Command)
@files_option
@namespace_option
@click.option("--prune", is_flag=True, help="Delete jobs with the --label that the files do not have.")
@click.option("--label", metavar="KEY=VALUE", help="Of --prune; the jobs of the files have to carry it.")
@click.option(
    "--prune-max", metavar="N|P%", callback=pruning.most,
    help="Of --prune: do nothing when more jobs would go than this, or than this share of those with the label."
    f"  [default: {pruning.DEFAULT_MOST}]",
)  # fmt: skip
@click.option("--allow-empty", is_flag=True, help="Of --prune: the files may hold no job at all.")
@click.option("--yes", is_flag=True, help="Of --prune: do not ask.")
@click.option("--check", is_flag=True, help="Send nothing when one of the jobs would be refused.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done; see also 'jobs diff'.")
@format_option
@progress_option
@remote
def apply(
    client: Client, files: tuple[str, ...], namespace: str, prune: bool, label: str | None, prune_max: str | None,
    allow_empty: bool, yes: bool, check: bool, dry_run: bool, fmt: str,
) -> None:  # fmt: skip
    """Create or replace the jobs of files, each by its name. Safe to repeat.

    A file holds one job or many: YAML documents, a JSON list, one per line, or what `jobs export` or
    `jobs list -o json` printed. It compares all jobs first, as the cluster reads them, and sends only those that
    differ. If somebody changes a job meanwhile, that job is refused. If a job is refused, the others are still sent;
    the exit code is then that of the first refusal. A paused job stays paused; "suspended": true pauses one. Jobs of
    an export that had expired there are left out, because they would run again.

    --check sends nothing if the comparison finds a job that would be refused. It is no transaction: a change by
    somebody else, a limit that is reached, and jobs that would wait for each other are noticed only while jobs are
    sent, and those sent before stay.

    --prune also deletes the jobs of all namespaces that carry --label and are in none of the files. It lists them and
    asks first, and deletes nothing if a job was refused. Before anything is sent it refuses files without any job
    (--allow-empty allows them), because a template may have rendered nothing, and more deletions than --prune-max.

    \b
      raftsched jobs apply -f jobs.yaml
      raftsched jobs apply -f jobs/ --check --prune --label app=shop
      raftsched jobs list --all -o json | raftsched --server http://other:7401 jobs apply -f -
    """
    if not prune and (allow_empty or prune_max is not None):
        raise click.UsageError("--allow-empty and --prune-max go with --prune")
    found = read_wanted(files, namespace, empty=prune)
    label = pruning.label_of(label, found, prune=prune)
    if prune and not found and not allow_empty:
        raise click.UsageError(
            f"there is no job in {', '.join(files)}: --prune would delete all jobs with the label {label}. Say"
            " --allow-empty if that is meant"
        )
    apply_wanted(client, found, [label] if prune else [], prune_max, yes=yes, check=check, dry_run=dry_run, fmt=fmt)


def apply_wanted(
    client: Client,
    found: Sequence[Wanted],
    labels: Sequence[str],
    prune_max: str | None,
    *,
    yes: bool,
    check: bool,
    dry_run: bool,
    fmt: str,
) -> None:
    """Makes the jobs, says what became of each, and ends the process with the exit code. `labels`: of --prune; with
    one of them a job is deleted that is not among the jobs."""
    seen = compare_all(client, found, newest=not dry_run)
    surplus = pruning.surplus(client, labels, found, newest=not seen and not dry_run) if labels else None
    refusal = None if surplus is None else surplus.refusal(prune_max or pruning.DEFAULT_MOST)
    if refusal is not None and not dry_run:
        raise Failure(refusal)
    outcomes = _Outcomes(found)
    deleted: list[dict[str, Any]] = []
    code = 0
    try:
        if (check and _would_refuse(client, found, seen, outcomes)) or dry_run:
            _say(client, found, seen, outcomes, dry_run)
        else:
            _send(client, found, seen, outcomes)
        if surplus is not None and surplus.jobs and not outcomes.code:
            if dry_run:
                deleted = [_would_be_deleted(job) for job in surplus.jobs]
            else:
                if not yes:
                    pruning.ask(surplus.jobs)
                for told, failed in pruning.delete(client, surplus.jobs):
                    deleted.append(told)
                    code = code or failed
    finally:  # what was done is told, whatever came after it
        _print([*outcomes.told, *deleted], fmt)
        print_warnings((job_ref(one.where), seen.get(one.path, {})) for one in found)
    if refusal is not None:
        raise Failure(refusal)
    sys.exit(outcomes.code or code)


def _would_refuse(
    client: Client, found: Sequence[Wanted], seen: Mapping[str, Mapping[str, Any]], outcomes: _Outcomes
) -> bool:
    """Returns whether one of the jobs would be refused now. Those that would are told."""
    from raftsched.client.errors import ClientError

    for wanted in found:
        if not wanted.expired and seen.get(wanted.path, {"result": "refused"})["result"] == "refused":
            try:
                compare(client, wanted)
            except ClientError as e:
                _refused(outcomes, wanted, e)
    return outcomes.code != 0


def _say(
    client: Client,
    found: Sequence[Wanted],
    seen: Mapping[str, Mapping[str, Any]],
    outcomes: _Outcomes,
    dry_run: bool,
) -> None:
    """Tells of each job what would become of it, or that it was not sent since another one was refused."""
    from raftsched.client.errors import ClientError

    known = {(one["namespace"], one["name"]) for one in outcomes.told}
    for wanted in found:
        if (wanted.namespace, wanted.name) in known:
            continue
        if wanted.expired:
            _leave_out(outcomes, wanted)
            continue
        if not dry_run:
            outcomes.tell(wanted, _NOT_SENT)
            continue
        one = seen.get(wanted.path)
        try:
            result = one["result"] if one is not None and one["result"] in _WOULD else compare(client, wanted)["result"]
            outcomes.tell(wanted, _WOULD[result])
        except ClientError as e:
            _refused(outcomes, wanted, e)


def _send(client: Client, found: Sequence[Wanted], seen: Mapping[str, Mapping[str, Any]], outcomes: _Outcomes) -> None:
    from raftsched.client.errors import ClientError

    def act(own: Client, wanted: Wanted) -> None:
        try:
            outcomes.tell(wanted, put(own, wanted, seen.get(wanted.path)))
        except ClientError as e:
            _refused(outcomes, wanted, e)
        except Changed as e:
            outcomes.tell(wanted, "refused", str(e), int(e.error.exit))

    differ = []
    for wanted in found:
        if wanted.expired:
            _leave_out(outcomes, wanted)
        elif seen.get(wanted.path, {}).get("result") == "unchanged":
            outcomes.tell(wanted, "unchanged")
        else:
            differ.append(wanted)
    if differ:
        with Progress("applying", len(differ)) as line:
            each(client, differ, act, line.add)


def _leave_out(outcomes: _Outcomes, wanted: Wanted) -> None:
    outcomes.tell(wanted, "left out", "it had expired where it comes from")


def _refused(outcomes: _Outcomes, wanted: Wanted, error: Any) -> None:
    """Tells of a job that was refused. Raises the error where it is not about the job."""
    if not 400 <= error.status < 500:
        raise error
    outcomes.tell(wanted, "refused", reason_of(error), int(error.exit))


def _would_be_deleted(job: Mapping[str, Any]) -> dict[str, Any]:
    where = {"namespace": job["namespace"], "name": job.get("name"), "id": job["id"]}
    return {**where, "result": "would be deleted"}


def _print(results: Sequence[dict[str, Any]], fmt: str) -> None:
    if fmt == "json":
        print_json({"items": results})
        return
    kept_back = 0
    for result in results:
        reason = result.get("reason")
        if result["result"] == _NOT_SENT:
            kept_back += 1
        elif fmt == "name" and not reason:
            click.echo(job_ref(result))
        else:
            why = "" if not reason else f": {reason}"
            place = f" ({result['file']})" if "file" in result else ""
            click.echo(f"{result['result']}: {job_ref(result)}{why}{place}", err=bool(reason))
    if kept_back:
        click.echo(f"nothing was sent: {kept_back:,} other jobs were not sent either, as --check wants it", err=True)
