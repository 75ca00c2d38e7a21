"""Says where a document is to be read: on the node that answers, which serves them with its page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raftsched.client.http import Client

DOCS = "/ui/docs/"
WAIT_S = 2.0
_SOURCE = re.compile(r"docs/([a-z0-9/_-]+)\.md(?:#([a-z0-9_-]+))?")


def docs_of(client: Client) -> str:
    """Returns the address at which the first of these nodes that answers serves the documents; empty: it does not."""
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http

    try:
        answer = Http(client.servers, timeout=WAIT_S, token=client.token, trust=client.trust).request("GET", DOCS)
    except ClientError:
        return ""
    # Nodes that do not have them yet answer with the page whatever is asked for below /ui/; that does not link there.
    return f"{answer.server}{DOCS}" if answer.status == 200 and DOCS.encode() in answer.body else ""


def document_address(source: str, docs: str) -> str:
    """Returns where a section of the documents is read, such as docs/runbook.md#runs-that-fail. `docs`: as docs_of
    says; empty: the name of the file stays."""
    found = _SOURCE.fullmatch(source)
    if not docs or found is None:
        return source
    page, anchor = found.groups()
    return f"{docs}{page}/#{anchor}" if anchor else f"{docs}{page}/"
