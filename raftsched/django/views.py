"""Tells whether the cluster takes jobs from this process: to load balancers, and to `check --deploy`."""

from __future__ import annotations

import logging
import threading

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from raftsched.client.errors import ClientError
from raftsched.system.clock import SystemClock

ASK_S = 2.0  # for an answer of the cluster
KEPT_S = 2.0  # an answer is given again for so long: strangers may ask, and each question would go to the cluster

log = logging.getLogger("raftsched.django")


def trouble() -> str | None:
    """Returns why the cluster takes no jobs from this process; None: it does."""
    from raftsched.client.enqueueing import default_client

    try:
        status = default_client().within(ASK_S).cluster.status()
    except ClientError as error:
        return error.detail
    except Exception as error:  # settings that cannot be, a context that is not there
        return str(error)
    if not status.formed or status.leader is None:
        return "It has no leader."
    return None


class _Answer:
    """The last answer. While one thread asks, others get what there was."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._asking = threading.Lock()
        self._until = 0.0
        self._known: bool | None = None

    def well(self) -> bool:
        if self._known is not None and self._clock.monotonic() < self._until:
            return self._known
        if not self._asking.acquire(blocking=self._known is None):
            return bool(self._known)
        try:
            if self._known is None or self._clock.monotonic() >= self._until:
                self._ask()
        finally:
            self._asking.release()
        return bool(self._known)

    def _ask(self) -> None:
        why = trouble()
        if why is not None and self._known is not False:
            log.warning("the cluster takes no jobs: %s", why)
        self._known = why is None
        self._until = self._clock.monotonic() + KEPT_S


_answer = _Answer()


@never_cache
@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Answers 200 {"status": "ok"}, or 503 {"status": "unavailable"}: no word more, for strangers may ask. The reason
    is in the log. The cluster is asked once in two seconds at most, for two seconds at most."""
    well = _answer.well()
    return JsonResponse({"status": "ok" if well else "unavailable"}, status=200 if well else 503)
