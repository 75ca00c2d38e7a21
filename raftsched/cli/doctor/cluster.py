"""The questions that `doctor` asks the nodes; `raftsched.doctor` judges the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raftsched.doctor import WAITING, Finding, examine, samples_of

if TYPE_CHECKING:
    from raftsched.client.http import Client

NODE_WAIT_S = 5.0


def look_at_cluster(client: Client) -> Iterator[Finding]:
    from raftsched.client.errors import ClientError

    try:
        cluster = client.get("/v1/cluster")
    except ClientError as error:
        if error.code == "locked":
            yield Finding(
                "access", "fail", error.detail, "on the machine of a node: raftsched tokens bootstrap --data DIR"
            )
        elif error.status in (401, 403):
            yield Finding("access", "fail", error.detail, "say who asks: RAFTSCHED_TOKEN, --token, or a context")
        else:
            yield Finding("reachable", "fail", error.detail, "is a node running? say --server URL, or 'raftsched dev'")
        return
    samples, silent = _ask_each(client, cluster)
    try:
        yield from examine(cluster, samples, silent, _Asked(client), "this machine")
    except ClientError as error:
        if error.code != "unreachable" and error.status not in (401, 403, 503):
            raise
        yield Finding("answers", "warn", error.detail, "the checks that need this were left out; run it again")


class _Asked:
    """The facts of the cluster, each asked for when it is needed. Calls raise ClientError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def clock_limit_ms(self) -> int:
        from raftsched.quantities import parse_duration

        return parse_duration(self._client.get("/v1/cluster/settings")["clock_limit"])

    def tokens_required(self) -> bool:
        return bool(self._client.get("/v1/cluster/access")["required"])

    def waiting(self) -> int:
        return sum(1 for _ in self._client.items("/v1/instances", {"state": "WAITING"}, WAITING))

    def paused_queues(self) -> list[str]:
        return [queue["name"] for queue in self._client.items("/v1/queues", {}, WAITING) if queue["paused"]]


def _ask_each(client: Client, cluster: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Returns samples of /metrics of each node (none where that is refused), and where the nodes are that do not
    answer."""
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http
    from raftsched.client.servers import parse_servers

    samples: dict[str, dict[str, float]] = {}
    silent = {}
    for node in cluster["nodes"]:
        try:
            if not node.get("http"):
                raise ClientError("unreachable", "unknown")
            asked = Http(parse_servers(node["http"]), timeout=NODE_WAIT_S, token=client.token, trust=client.trust)
            samples[node["id"]] = samples_of(asked.request("GET", "/metrics").body.decode("utf-8", "replace"))
        except (ClientError, ValueError) as error:
            if isinstance(error, ClientError) and error.status in (401, 403, 429):
                samples[node["id"]] = {}  # it answers; this token is not for what it says there
                continue
            silent[node["id"]] = node.get("http") or ""
    return samples, silent
