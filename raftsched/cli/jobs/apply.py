"""`raftsched jobs apply`: what a file says is what is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.remote import by_name, format_option, job_ref, remote
from raftsched.cli.terminal.documents import read_jobs
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.progress import progress, progress_option
from raftsched.regular_files import read_regular

if TYPE_CHECKING:
    from raftsched.client.http import Client

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_AT_ONCE = 1_000  # jobs in one question,
_BYTES_AT_ONCE = 1 << 20  # and of these so many bytes
_WOULD = {"created": "would be created", "changed": "would be changed", "unchanged": "unchanged"}


@dataclass(frozen=True)
class Wanted:
    """One job of the files."""

    place: str  # "jobs.yaml: line 3"
    namespace: str
    job: dict[str, Any]
    expired: bool  # it is over where it was exported

    @property
    def name(self) -> str:
        return str(self.job["name"])

    @property
    def path(self) -> str:
        return by_name(self.namespace, self.name)

    @property
    def where(self) -> dict[str, str]:
        return {"namespace": self.namespace, "name": self.name}


files_option = click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="YAML, JSON or JSON lines; '-' is stdin, a directory means its .yaml, .yml, .json and .jsonl files; may be"
    " repeated.",
)
namespace_option = click.option(
    "--namespace", "-N", default="default", show_default=True, metavar="NS", help="Of jobs that name none."
)


def read_wanted(files: Sequence[str], namespace: str) -> list[Wanted]:
    """The jobs of all files, each with a name of its own. Raises a usage error; then nothing was sent."""
    found: list[Wanted] = []
    seen: dict[tuple[str, str], str] = {}
    for source, data in _contents(files):
        for document in read_jobs(data, source):
            job, place = document.value, f"{source}: {document.place}"
            if not isinstance(job.get("name"), str):
                raise click.UsageError(f"{place} has no name; apply finds jobs by name (or use jobs create)")
            wanted = Wanted(place, str(job.get("namespace") or namespace), job, document.expired)
            try:
                by_name(wanted.namespace, wanted.name)
            except click.UsageError as error:
                raise click.UsageError(f"{place}: {error.message}") from None
            before = seen.setdefault((wanted.namespace, wanted.name), place)
            if before != place:
                raise click.UsageError(f"{place}: {job_ref(wanted.where)} is there already, at {before}; keep one")
            found.append(wanted)
    return found


def _contents(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for name in files:
        if name == "-":
            yield "stdin", sys.stdin.buffer.read()
            continue
        path = Path(name)
        try:
            parts = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
            if not parts:
                raise click.UsageError(f"{name} has no files that end with {', '.join(SUFFIXES)}")
            for part in parts:
                yield str(part), part.read_bytes() if part == path else read_regular(part)
        except OSError as error:
            raise click.UsageError(f"cannot read {error.filename}: {(error.strerror or '').lower()}") from None


@click.command()
@files_option
@namespace_option
@click.option("--prune", is_flag=True, help="Delete jobs with the --label that the files do not have.")
@click.option("--label", metavar="KEY=VALUE", help="Of --prune; the jobs of the files have to carry it.")
@click.option("--yes", is_flag=True, help="Of --prune: do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done; see also 'jobs diff'.")
@format_option
@progress_option
@remote
def apply(
    client: Client, files: tuple[str, ...], namespace: str, prune: bool, label: str | None, yes: bool, dry_run: bool,
    fmt: str,
) -> None:  # fmt: skip
    """Create or replace the jobs of files, each by its name. Safe to repeat.

    A file holds one job or many: YAML documents, a JSON list, one per line, or what `jobs export` or
    `jobs list -o json` printed. A job that is refused does not keep the others out; the exit code is then that of the
    first refusal. A job that is paused stays paused; "suspended": true pauses one. What is read from an export and had
    expired there is left out, for it would run again.

    --prune also deletes: the jobs of all namespaces that carry --label and are in none of the files. It lists them and
    asks first, and deletes nothing when a job was refused.

    \b
      raftsched jobs apply -f jobs.yaml
      raftsched jobs apply -f jobs/ --prune --label app=shop
      raftsched jobs list --all -o json | raftsched --server http://other:7401 jobs apply -f -
    """
    from raftsched.client.errors import ClientError

    found = read_wanted(files, namespace)
    key, value = _label(label, prune)
    for wanted in found if prune else ():
        if (wanted.job.get("labels") or {}).get(key) != value:
            raise click.UsageError(f"{wanted.place}: {job_ref(wanted.where)} lacks the label {label}; --prune wants it")
    results: list[dict[str, Any]] = []
    code = 0
    same = frozenset() if dry_run else _unchanged(client, found)
    try:
        with progress(found, "applying") as items:
            for wanted in items:
                if wanted.path in same:
                    results.append({**wanted.where, "result": "unchanged"})
                    continue
                try:
                    results.append({**wanted.where, **_apply(client, wanted, dry_run)})
                except ClientError as e:
                    if not 400 <= e.status < 500:
                        raise
                    code = code or int(e.exit)
                    results.append({**wanted.where, "result": "refused", "reason": reason_of(e)})
        if prune and not code:
            keep = {(w.namespace, w.name) for w in found}
            results += _prune(client, str(label), keep, yes, dry_run)
    finally:  # what was done is told, whatever came after it
        _print(results, fmt)
    sys.exit(code)


def _label(label: str | None, prune: bool) -> tuple[str, str]:
    if prune != (label is not None):
        raise click.UsageError("--prune and --label KEY=VALUE go together")
    key, equals, value = (label or "=").partition("=")
    if prune and not (key and equals):
        raise click.UsageError("--label takes KEY=VALUE")
    return key, value


def reason_of(error: Any) -> str:
    """Returns the text of a refusal, with all bad fields."""
    places = [f"{e.pointer or '/'}: {e.detail}" for e in error.errors]
    return "; ".join([error.detail, *places]) if len(places) > 1 else str(error.detail)


def current(client: Client, path: str) -> dict[str, Any] | None:
    """The job by its name; None: there is none."""
    from raftsched.client.errors import ClientError

    try:
        return dict(client.get(path))
    except ClientError as e:
        if e.status != 404 or e.code != "not-found":
            raise
        return None


def compare(client: Client, wanted: Wanted) -> dict[str, Any]:
    """{"result": "created", "changed" or "unchanged", "before", "after"}: what applying it would do."""
    body = {**wanted.job, "namespace": wanted.namespace}
    return dict(client.post(f"{wanted.path}/compare", body))


def _unchanged(client: Client, found: Sequence[Wanted]) -> frozenset[str]:
    """Returns the paths of the jobs that are there as the files have them, as of now. Nodes of earlier versions are not
    asked for many at once: they answer 404 or 405. What is wrong with a job, its own PUT says."""
    from raftsched.client.errors import ClientError

    same: list[str] = []
    try:
        for some in portions([wanted for wanted in found if not wanted.expired]):
            body = [{**wanted.job, "namespace": wanted.namespace} for wanted in some]
            answer = client.post("/v1/jobs:compare?consistency=leader", body)
            results = zip(some, answer["items"], strict=True)
            same += [wanted.path for wanted, one in results if one["result"] == "unchanged"]
    except ClientError as e:
        if not 400 <= e.status < 500:
            raise
    return frozenset(same)


def portions(found: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Yields the jobs in their order, as many together as one question takes."""
    portion: list[Wanted] = []
    size = 0
    for wanted in found:
        portion.append(wanted)
        size += len(json.dumps(wanted.job))
        if size >= _BYTES_AT_ONCE or len(portion) >= _AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _apply(client: Client, wanted: Wanted, dry_run: bool) -> dict[str, Any]:
    if wanted.expired:
        return {"result": "left out", "reason": "it had expired where it comes from"}
    if dry_run:
        return {"result": _WOULD[compare(client, wanted)["result"]]}
    before = current(client, wanted.path)
    answer = client.request("PUT", wanted.path, body={**wanted.job, "namespace": wanted.namespace})
    if answer.status == 201:
        return {"result": "created"}
    job = answer.json()
    same = before is not None and (before["id"], before["revision"]) == (job["id"], job["revision"])
    return {"result": "unchanged" if same and before and before["state"] == job["state"] else "changed"}


def _prune(
    client: Client, label: str, keep: set[tuple[str, str]], yes: bool, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Deletes each at the revision that was shown: what somebody changed meanwhile stays."""
    from raftsched.client.errors import ClientError

    surplus = [
        job
        for job in client.items("/v1/jobs", {"label": label}, None)
        if (job["namespace"], job.get("name")) not in keep
    ]
    if surplus and not dry_run and not yes:
        for job in surplus:
            click.echo(f"not in the files: {job_ref(job)} ({job['state']})", err=True)
        if not click.confirm(f"Delete these {len(surplus)} jobs?", err=True):
            raise click.Abort
    for job in surplus:
        where = {"namespace": job["namespace"], "name": job.get("name"), "id": job["id"]}
        if dry_run:
            yield {**where, "result": "would be deleted"}
            continue
        try:
            client.request("DELETE", f"/v1/jobs/{job['id']}", headers={"If-Match": f'"{job["revision"]}"'})
        except ClientError as e:
            if e.status not in (404, 412):
                raise
            yield {**where, "result": "refused", "reason": e.detail}
        else:
            yield {**where, "result": "deleted"}


def _print(results: list[dict[str, Any]], fmt: str) -> None:
    if fmt == "json":
        print_json({"items": results})
        return
    for result in results:
        reason = result.get("reason")
        if fmt == "name" and not reason:
            click.echo(job_ref(result))
        else:
            click.echo(f"{result['result']}: {job_ref(result)}" + (f": {reason}" if reason else ""), err=bool(reason))
