"""`raftsched jobs diff` and `edit`: what a change would change, and changes made by hand."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.jobs.comparing import compare, compare_all, reason_of
from raftsched.cli.jobs.export import portable, said_by_namespace, unwritable
from raftsched.cli.jobs.job_files import Wanted, files_option, namespace_option, read_wanted
from raftsched.cli.lazy import Command
from raftsched.cli.remote import find_job, format_option, job_ref, remote
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.progress import progress, progress_option
from raftsched.errors import Exit
from raftsched.importers.documents import read_jobs
from raftsched.surface.plain import jobs

if TYPE_CHECKING:
    from raftsched.client.http import Client

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
DIFFERENT = 1
REFUSED = 2


@click.command(cls=Command)
@files_option
@namespace_option
@format_option
@progress_option
@remote
def diff(client: Client, files: tuple[str, ...], namespace: str, fmt: str) -> None:
    """Say what 'jobs apply' of the same files would change. Nothing is done.

    Exit code 0 when nothing would change, 1 when something would, 2 when a job would be refused; others as always.

    \b
      raftsched jobs diff -f jobs.yaml
      raftsched jobs diff -f jobs/ -o name
    """
    diff_wanted(client, read_wanted(files, namespace), fmt)


def diff_wanted(client: Client, wanted_jobs: Sequence[Wanted], fmt: str) -> None:
    """Shows what applying the jobs would change, and ends the process with the exit code."""
    from raftsched.client.errors import ClientError

    code = 0
    results: list[dict[str, Any]] = []
    seen = {} if fmt == "json" else compare_all(client, wanted_jobs, newest=False)
    with progress(wanted_jobs, "comparing") as items:
        for wanted in items:
            if wanted.expired:
                results.append({**wanted.where, "result": "left out"})
                continue
            if seen.get(wanted.path, {}).get("result") == "unchanged":
                continue  # nothing of it would be shown
            try:
                found = compare(client, wanted)
            except ClientError as e:
                if not 400 <= e.status < 500:
                    raise
                code = REFUSED
                results.append({**wanted.where, "result": "refused", "reason": reason_of(e), "file": wanted.place})
            else:
                code = code or (0 if found["result"] == "unchanged" else DIFFERENT)
                results.append({**wanted.where, **found})
    if fmt == "json":
        print_json({"items": results})
    else:
        for result in results:
            _show(result, fmt)
    sys.exit(code)


def _show(result: dict[str, Any], fmt: str) -> None:
    if result["result"] == "refused":
        click.echo(f"refused: {job_ref(result)}: {result['reason']} ({result['file']})", err=True)
    elif fmt == "name":
        if result["result"] in ("created", "changed"):
            click.echo(job_ref(result))
    elif result["result"] in ("created", "changed"):
        ref = job_ref(result)
        for line in difflib.unified_diff(
            _lines(result["before"]), _lines(result["after"]), f"{ref} (there)", f"{ref} (file)", lineterm=""
        ):
            click.secho(line, fg=_COLOURS.get(line[0]), bold=line.startswith(("---", "+++")))


def _lines(job: dict[str, Any] | None) -> list[str]:
    from raftsched.importers.yaml_text import yaml_text

    return [] if job is None else yaml_text(portable(job, full=True)).splitlines()


@click.command(cls=Command)
@click.argument("job", metavar="JOB")
@remote
def edit(client: Client, job: str) -> None:
    """Edit a job in your editor ($VISUAL, $EDITOR), as YAML.

    Nothing changes when you save nothing. A job that somebody else changed meanwhile is not overwritten, and what you
    wrote is kept in a file when it could not be saved.

    \b
      EDITOR=vi raftsched jobs edit billing/nightly-report
    """
    from raftsched.client.errors import ClientError
    from raftsched.importers.yaml_text import yaml_text

    found = find_job(client, job)
    says = said_by_namespace(client, found["namespace"])
    shown = portable(found, says=says)
    shown.pop("suspended", None)  # pause and resume do that
    text = yaml_text(shown)
    written = click.edit(text, extension=".yaml")
    if written is None or written == text:
        click.echo(f"unchanged: {job_ref(found)}")
        return
    try:
        documents = read_jobs(written.encode(), "what you wrote")
        if len(documents) != 1:
            raise click.UsageError(f"what you wrote holds {len(documents)} jobs; it was one")
        method, body = "PUT", documents[0].value
        if any(body.get(field) is None for field in unwritable(found, says)):  # a PUT would take the default
            (before,) = read_jobs(text.encode(), "what was shown")
            method, body = "PATCH", _patch(before.value, body)
        answer = client.request(
            method, jobs.PATCH.format(id=found["id"]), body=body, headers={"If-Match": f'"{found["revision"]}"'}
        )
    except click.UsageError as e:
        raise Failure(f"{e.message}\n{_kept(found, written)}", Exit.USAGE) from None
    except ClientError as e:
        raise Failure(f"{reason_of(e)}\n{_kept(found, written)}", e.exit) from None
    was, now = job_ref(found), job_ref(answer.json() or found)
    click.echo(f"changed: {now}" + (f", which was {was}: it is renamed" if was != now else ""))


def _patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Returns the merge patch (RFC 7396) that makes one job of another. Raises click.UsageError: none can."""
    patch = _merging(before, after)
    for field in ("trigger", "handler"):  # which are replaced whole
        if patch.get(field) is not None:
            patch[field] = after[field]
    if _has_null(after.get("params")) and "params" in patch:
        raise click.UsageError("params with null cannot be changed alone; say what the namespace has a default of, too")
    return {field: value for field, value in patch.items() if field in after or field not in ("name", "namespace")}


def _merging(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        was = before.get(key)
        if key not in before or was != value:
            patch[key] = _merging(was, value) if isinstance(was, dict) and isinstance(value, dict) else value
    return patch


def _has_null(value: Any) -> bool:
    return isinstance(value, dict) and any(one is None or _has_null(one) for one in value.values())


def _kept(job: dict[str, Any], written: str) -> str:
    """Returns the path where what was written is kept; no file that exists is touched."""
    for number in range(1, 1000):
        path = Path(f"{job.get('name') or job['id']}.edit{number}.yaml")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(written)
        except FileExistsError:
            continue
        except OSError as error:
            return (
                f"it could not be kept in {path}: {(error.strerror or '').lower()}; this is what you wrote:\n{written}"
            )
        return f"what you wrote is in {path}"
    return f"this is what you wrote:\n{written}"
