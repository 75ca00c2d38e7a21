"""Ids and names of what there is, for requests that would otherwise nearly all be about nothing."""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict, deque
from typing import Any
from urllib.parse import unquote

import requests
from schemathesis.core.parameters import ParameterLocation

KEPT = 20  # of each kind, the newest
SHARE = 0.8  # of the requests are about something that there is
_COLLECTION = re.compile(r"/v1/([a-z-]+)/\{(id|name|ns)\}")
_JOB_BY_NAME = re.compile(r"/v1/namespaces/([^/]+)/jobs/([^/?]+)")
_ONE = re.compile(r"/v1/([a-z-]+)/([^/?]+)")
_Place = tuple[str, ...]


class Pool:
    """Learns from the Location of answers, and from what is answered under an address. What was deleted meanwhile
    leaves with the 404 that it is answered with."""

    def __init__(self) -> None:
        self._known: defaultdict[str, deque[_Place]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._ever: set[_Place] = set()
        self._random = random.Random(0)

    def put_in(self, case: Any) -> None:
        """Something that there is in the place of a name that is well-formed and never meant anything. What there is,
        or was, stays: it follows from an answer before (links)."""
        given = case.path_parameters
        if not given or case.meta is None or case.meta.is_negative_at(ParameterLocation.PATH):
            return
        if self._random.random() >= SHARE:
            return
        by_name = "/jobs/{name}" in case.path
        match = _COLLECTION.match(case.path)
        kind = "by name" if by_name else match[1] if match else ""
        known = self._known[kind]
        if not known and kind in ("jobs", "by name", "instances"):
            self._make(case.operation.base_url.rstrip("/"))
        places = ("ns", "name") if by_name else (match[2],) if match else ()
        if known and tuple(given.get(place) for place in places) not in self._ever:
            case.path_parameters = {**given, **dict(zip(places, self._random.choice(list(known)), strict=True))}

    def take_conditions(self, case: Any) -> None:
        """Most requests go without a precondition: it would not hold, and nothing else would be looked at."""
        unmet = {name for name in ("If-Match", "If-None-Match") if name in (case.headers or {})}
        if case.method in ("GET", "HEAD") or not unmet or self._random.random() >= SHARE:
            return
        if case.meta is not None and not case.meta.is_negative_at(ParameterLocation.HEADER):
            kept = {name: value for name, value in case.headers.items() if name not in unmet}
            case.headers = type(case.headers)(kept)

    def _make(self, server: str) -> None:
        """A job, and an instance of it, when all are gone: filters that delete are generated as well."""
        job = {
            "name": f"made-{self._random.getrandbits(40):x}",
            "trigger": {"manual": True},
            "handler": {"shell": "true"},
        }
        try:
            maker = os.environ.get("FUZZ_MAKER")
            headers = {"Authorization": f"Bearer {maker}"} if maker else {}
            made = requests.post(f"{server}/v1/jobs", json=job, headers=headers, timeout=10)
            if made.status_code != 201:
                return
            run = requests.post(f"{server}{made.headers['Location']}/run", json={}, headers=headers, timeout=10)
        except requests.RequestException:
            return  # it is made another time
        self._known["jobs"].append((made.json()["id"],))
        self._known["by name"].append((made.json()["namespace"], job["name"]))
        if run.status_code == 202:
            self._known["instances"].append((run.json()["id"],))

    def newest(self, kind: str) -> str | None:
        known = self._known[kind]
        return known[-1][-1] if known else None

    def take_out(self, response: Any) -> None:
        asked = f"{response.request.method} {response.request.url}"
        if asked.startswith("DELETE") and "/v1/jobs?" in asked and response.status_code < 300:
            for kind in ("jobs", "by name", "instances") if "dry_run=true" not in asked else ():
                self._known[kind].clear()
        path = response.request.url.partition("://")[2]
        path = path[path.find("/") :]
        for address in (path, *(response.headers.get("location") or ())):
            kind, place = _thing(address)
            if not place:
                continue
            known = self._known[kind]
            deleted = response.request.method == "DELETE" and response.status_code in (200, 204)  # 202: it is ended
            gone = deleted or response.status_code == 404
            if gone and address == path and place in known:
                known.remove(place)
            elif not gone and response.status_code < 300 and place not in known:
                known.append(place)
                self._ever.add(place)


def _thing(address: str) -> tuple[str, _Place]:
    """What kind of thing an address is about, and its name; no name when it is about none."""
    address = unquote(address)
    match = _JOB_BY_NAME.match(address)
    if match is not None:
        return "by name", (match[1], match[2])
    match = _ONE.match(address)
    return (match[1], (match[2],)) if match is not None else ("", ())
