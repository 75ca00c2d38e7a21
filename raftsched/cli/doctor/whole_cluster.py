"""Asks one node for what all of them know of the cluster, and each whether it answers this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raftsched.cli.cluster.views import lost_in
from raftsched.doctor import CHECKS, Finding
from raftsched.surface.plain import cluster as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

ASK_WAIT_S = 5.0  # for the node that tells of the cluster; it waits a second for the others
NODE_WAIT_S = 2.0  # for each node; they are asked at the same time
_OF_MAJORITY = ("leader", "quorum", "members")  # checks whose advice is another where a majority is lost


def look_at_cluster(client: Client) -> Iterator[Finding]:
    """Gives the findings of the node that answers, then how the others are reached from here."""
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http

    one = Http(client.servers, timeout=ASK_WAIT_S, token=client.token, trust=client.trust)
    try:
        cluster = one.get(addresses.STATUS)
    except ClientError as error:
        yield _unanswered(error)
        return
    try:
        seen = one.get(addresses.DOCTOR)
    except ClientError as error:
        if error.status not in (401, 403, 503) and error.code not in ("unreachable", "timeout"):
            raise
        do = (
            "ask with the token of a viewer for all namespaces"
            if error.status in (401, 403)
            else "run it again, or ask another node: --server URL"
        )
        yield Finding("answers", "warn", error.detail, f"{do}; all checks of the cluster were left out")
    else:
        lost = None if cluster.get("leader") else lost_in(client, cluster)
        for item in seen["items"]:
            if item["check"] != "reachable":
                found = _finding(item)
                yield replace(found, do=lost.do) if lost and found.check in _OF_MAJORITY and found.do else found
    yield _reached(client, cluster["nodes"], cluster.get("node"))


def _unanswered(error: Any) -> Finding:
    if error.code == "locked":
        return Finding(
            "access", "fail", error.detail, "on the machine of a node: raftsched tokens bootstrap --data DIR"
        )
    if error.status in (401, 403):
        return Finding("access", "fail", error.detail, "say who asks: RAFTSCHED_TOKEN, --token, or a context")
    if "has expired" in error.detail:
        do = "put a new certificate there (raftsched certs node): the node reads it by itself, at once at SIGHUP"
        return Finding("reachable", "fail", error.detail, do, see=CHECKS["certificates"].see)
    see = CHECKS["certificates"].see if error.code == "untrusted" else ""
    return Finding("reachable", "fail", error.detail, _advice(error), see=see)


def _advice(error: Any) -> str:
    """Returns what to do, by the cause: who is there has a wrong certificate, or is no node; or nobody is there."""
    said = error.detail
    if "--ca-file" in said or "CA file" in said:
        return "say --ca-file FILE of the authority that signed it (RAFTSCHED_CA_FILE, or a context)"
    if "speak TLS" in said or "speaks TLS" in said:
        return "say --server with http:// or https://, whichever the node was started for"
    if error.code == "untrusted" or "certificate" in said or "is not trusted" in said:
        return "compare the certificate with the address that is asked: raftsched certs, openssl x509 -text"
    if error.code in ("not-raftsched", "redirected"):
        return "something else listens there: say --server URL of a node, or of a proxy before the nodes"
    if any(word in said for word in ("name or service not known", "resolution", "no address")):
        return "is the name right, and does this machine's DNS know it? say --server URL"
    if "does not respond" in said or "did not answer" in said:
        return "does that machine run, and can this one reach the port (firewall, network)? say --server URL"
    return "is a node running? say --server URL, or 'raftsched dev'; on its machine: raftsched doctor --local DIR"


def _finding(item: dict[str, Any]) -> Finding:
    """Returns what a node found, perhaps with a check that this version does not know."""
    nodes = tuple(item["nodes"])
    return Finding(
        item["check"], item["state"], item["detail"], item["do"] or "", nodes, item.get("why", ""), item.get("see", "")
    )


def _reached(client: Client, nodes: Sequence[dict[str, Any]], asked: str | None) -> Finding:
    """Returns whether the API of each node answers this machine. It may refuse: that is an answer. `asked`: the node
    that has answered, whose own address is in no table before it has a session."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, len(nodes))) as asking:
        answers = list(asking.map(lambda node: _answers(client, node.get("http") or ""), nodes))
    mute = [
        node
        for node, is_there in zip(nodes, answers, strict=True)
        if not is_there and (node.get("http") or node["id"] != asked)
    ]
    silent = {node["id"]: node.get("http") or "address unknown" for node in mute}
    if silent:
        who = ", ".join(f"{node} ({address})" for node, address in silent.items())
        says = f"{len(nodes) - len(silent)} of {len(nodes)} nodes answer, not {who}"
        do = "is the process running, and can this machine reach its HTTP port? its log says more"
        return Finding("reachable", "warn", says, do, tuple(silent))
    return Finding("reachable", "ok", f"all {len(nodes)} nodes answer" if len(nodes) > 1 else "the node answers")


def _answers(client: Client, address: str) -> bool:
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http
    from raftsched.client.servers import parse_servers

    if not address:
        return False
    try:
        Http(parse_servers(address), timeout=NODE_WAIT_S, token=client.token, trust=client.trust).get("/livez")
    except ClientError as error:
        return error.status > 0
    except ValueError:
        return False
    return True
