"""Where requests of a remote worker's session go, and what they carry."""

from __future__ import annotations

from raftsched.surface.worker_sessions import SESSION_SECRET

PATH = "/v1/worker-sessions"


def sent(session: str, path: str = "") -> tuple[str, dict[str, str]]:
    """Returns address and headers of a request. `session`: as its opening was answered; `path`: what follows it."""
    return f"{PATH}/{session.partition('-')[0]}{path}", {SESSION_SECRET: session}
