"""`jobs apply --prune`: which jobs the files do not have, how many may go at once, and their deletion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.jobs.job_files import Wanted
from raftsched.cli.remote import job_ref
from raftsched.surface.plain import jobs as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

DEFAULT_MOST = "50%"
_MOST = re.compile(r"([0-9]{1,9})(%?)", re.ASCII)


@dataclass(frozen=True)
class Surplus:
    """The jobs with a label that the files do not have, as they were at one time."""

    label: str
    jobs: list[dict[str, Any]]
    there: int  # with the label

    def refusal(self, most: str) -> str | None:
        """Returns why so many are not deleted at once; None: they may be."""
        match = _MOST.fullmatch(most)
        assert match is not None
        number, percent = int(match[1]), match[2]
        if len(self.jobs) * 100 <= number * self.there if percent else len(self.jobs) <= number:
            return None
        return (
            f"--prune would delete {len(self.jobs):,} of the {self.there:,} jobs with the label {self.label}, more than"
            f" --prune-max {most}; nothing was done. If that is meant, say --prune-max {len(self.jobs)}"
        )


def most(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Returns the text of --prune-max. Raises a usage error."""
    match = None if text is None else _MOST.fullmatch(text)
    if text is not None and (match is None or (match[2] and int(match[1]) > 100)):
        raise click.BadParameter(f"{text[:80]!r} is neither a number of jobs nor a share such as {DEFAULT_MOST}")
    return text


def label_of(label: str | None, found: Sequence[Wanted], *, prune: bool) -> str:
    """Returns the label of --prune, which all jobs of the files carry. Raises a usage error."""
    if prune != (label is not None):
        raise click.UsageError("--prune and --label KEY=VALUE go together")
    key, equals, value = (label or "=").partition("=")
    if prune and not (key and equals):
        raise click.UsageError("--label takes KEY=VALUE")
    for wanted in found if prune else ():
        if (wanted.job.get("labels") or {}).get(key) != value:
            raise click.UsageError(f"{wanted.place}: {job_ref(wanted.where)} lacks the label {label}; --prune wants it")
    return str(label)


def surplus(client: Client, labels: Sequence[str], found: Collection[Wanted], *, newest: bool) -> Surplus:
    """Returns what the files do not have. `newest`: as of now, for which there has to be a leader; else at least as of
    what this client was answered before."""
    keep = {(wanted.namespace, wanted.name) for wanted in found}
    there: list[dict[str, Any]] = []
    for label in labels:
        query = {"label": label, "consistency": "leader" if newest else None}
        there += client.items(addresses.LIST, query, None)
    jobs = [job for job in there if (job["namespace"], job.get("name")) not in keep]
    return Surplus(" or ".join(labels), jobs, len(there))


def ask(jobs: Sequence[dict[str, Any]]) -> None:
    """Lists them and asks. Raises click.Abort."""
    for job in jobs:
        click.echo(f"not in the files: {job_ref(job)} ({job['state']})", err=True)
    if not click.confirm(f"Delete these {len(jobs)} jobs?", err=True):
        raise click.Abort


def delete(client: Client, jobs: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Deletes each at the revision that was shown: what somebody changed meanwhile stays. Yields what is to be told of
    each, and its exit code."""
    from raftsched.cli.jobs.putting import meanwhile
    from raftsched.client.errors import ClientError

    for job in jobs:
        where = {"namespace": job["namespace"], "name": job.get("name"), "id": job["id"]}
        path = addresses.DELETE.format(id=job["id"])
        try:
            client.request("DELETE", path, headers={"If-Match": f'"{job["id"]}.{job["revision"]}"'})
        except ClientError as e:
            if e.status == 412:
                yield {**where, "result": "refused", "reason": meanwhile(client, path)}, int(e.exit)
                continue
            if e.status != 404:  # else it is gone, by whomever
                raise
        yield {**where, "result": "deleted"}, 0
