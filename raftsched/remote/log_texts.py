"""Words of a worker about its link to the cluster: which node it is about, what is wrong, and what comes of it."""

from __future__ import annotations

from raftsched.remote.server_port import Refused

UNAUTHORIZED = 401  # there was no token, or none that the cluster knows


def without_session(server: str, why: Exception, token_from: str) -> str:
    """Returns why there is no session yet. `token_from`: how the worker's user says a token."""
    said = str(why).rstrip(".")
    if isinstance(why, Refused):
        said = f"{server}: {said}"
        if why.status == UNAUTHORIZED:
            said += f". Say a token of the role worker with {token_from}"
    return f"no session yet, so nothing runs here: {said}. The worker asks again."


def unanswered(server: str, why: Exception) -> str:
    """Returns why a poll was not answered."""
    return f"{server} did not answer: {str(why).rstrip('.') or 'it takes too long'}"


def refused(server: str, why: Refused) -> str:
    """Returns why a poll was refused."""
    return f"{server} refused a poll: {why.detail.rstrip('.')}"


def goes_on(unrenewed: str, following: str, left_ms: int) -> str:
    """Returns what comes of a poll that did not renew the lease, of which `left_ms` are left."""
    return f"{unrenewed}. {following} is asked next; what runs goes on for {max(0, left_ms) / 1000:.1f} s."
