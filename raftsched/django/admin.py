"""Shows the jobs in the admin: how each ended last, with links into raftsched's page. It changes nothing.

Who has the permission raftsched.view_job sees it, and superusers. The cluster is asked with the token of this process,
whoever looks: so the list shows the namespace of the settings, where they name one. An asked cluster has two seconds;
where it is away, the page says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from raftsched.client import program
from raftsched.client.errors import ClientError
from raftsched.client.servers import DEFAULT_SERVERS, parse_servers
from raftsched.django import conf
from raftsched.django.models import Job

if TYPE_CHECKING:
    from raftsched.client.models_generated import Job as ClusterJob

ASK_S = 2.0
ROWS_MAX = 200


class Row(NamedTuple):
    name: str
    link: str  # "": the page's address is not known
    state: str
    next_fire_at: Any
    last_state: str
    last_end_at: Any
    running: int
    failures_in_a_row: int


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """One view, which reads."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="raftsched_job_changelist")]

    def changelist_view(self, request: HttpRequest, extra_context: Mapping[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        page, rows, why = "", [], ""
        try:
            page = page_address()
            rows = _rows(page)
        except ClientError as error:
            why = error.detail
        except Exception as error:  # settings that cannot be, a context that is not there
            why = str(error)
        context = {
            **self.admin_site.each_context(request),
            "title": "Jobs of raftsched",
            "opts": self.model._meta,
            "page": page,
            "rows": rows[:ROWS_MAX],
            "more": len(rows) > ROWS_MAX,
            "namespace": conf.given().get("namespace"),
            "why": why,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/raftsched/jobs.html", context)


def page_address() -> str:
    """Returns where browsers find raftsched's page, with a slash at its end, else that of the first server; "": a
    context says where that is, or the setting is wrong."""
    if conf.problems():
        return ""
    found = conf.given()
    if found.get("page"):
        return str(found["page"]).rstrip("/") + "/"
    if os.environ.get("RAFTSCHED_CONTEXT"):
        return ""
    servers = os.environ.get("RAFTSCHED_SERVER") or program.source().arguments.get("servers") or DEFAULT_SERVERS
    return f"{parse_servers(servers)[0]}/ui/"


def _rows(page: str) -> list[Row]:
    """Returns a row for each job, and one too many where there are more. Raises ClientError."""
    from raftsched.client.enqueueing import default_client

    jobs = default_client().within(ASK_S).jobs
    namespace = conf.given().get("namespace")
    found = jobs.list(most=ROWS_MAX + 1, namespace=namespace) if namespace else jobs.list(most=ROWS_MAX + 1)
    return [_row(job, page) for job in islice(found, ROWS_MAX + 1)]


def _row(job: ClusterJob, page: str) -> Row:
    return Row(
        name=f"{job.namespace}/{job.name or job.id}",
        link=f"{page}jobs/{quote(job.id, safe='')}" if page else "",
        state=job.state,
        next_fire_at=job.next_fire_at,
        last_state=job.last_state or "",
        last_end_at=job.last_end_at,
        running=job.running,
        failures_in_a_row=job.failures_in_a_row,
    )
