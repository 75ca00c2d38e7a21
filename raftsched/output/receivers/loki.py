"""Ships output to Grafana Loki, or whatever speaks its push API: POST /loki/api/v1/push as JSON.

Few labels: service_name, namespace, stream, node; each combination of them is a stream of Loki's. What there is one of
for each run (job, instance, attempt, token) and the number of the line are structured metadata, which Loki 3 has by
default. Lines of one stream have times that only grow, and the same ones when a batch is sent again, so that Loki
knows it: it keeps one of two entries with the same time and text.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Sequence

import aiohttp
import msgspec

from raftsched.config.shipping import ShipConfig, read_credentials
from raftsched.config.values import ConfigError
from raftsched.output.following.follower import NotTaken, Refused
from raftsched.output.receivers.trust import Trust
from raftsched.output.receivers.unshipped import Entry, Packed

SERVICE = "raftsched"
TIMEOUT_S = 30.0
ANSWER_MAX = 4_096  # bytes of an answer that are read
SAID_MAX = 300  # characters of it that the log is told
_REFUSED = frozenset({400, 422})  # this batch will never be taken: too old, too far behind, not what it reads

_encode = msgspec.json.Encoder().encode


class Loki:
    def __init__(self, config: ShipConfig, node_id: str, agent: str) -> None:
        """Raises OSError: the file of authorities cannot be used (ssl.SSLError is one)."""
        self._url = config.url
        self._node_id = node_id
        self._credentials = config.credentials
        self._headers = {"Content-Type": "application/json", "User-Agent": agent}
        if config.tenant:
            self._headers["X-Scope-OrgID"] = config.tenant
        self._trust = Trust(config.ca) if self._url.startswith("https:") else None
        self._session: aiohttp.ClientSession | None = None

    def pack(self, entry: Entry) -> bytes:
        return _encode((str(entry.at_ns), entry.line.text, metadata_of(entry)))

    async def take(self, lines: Sequence[Packed]) -> None:
        """Raises NotTaken, Refused."""
        try:
            headers = await asyncio.to_thread(self._with_credentials)
            tls = True if self._trust is None else await asyncio.to_thread(self._trust.context)
            async with self._http().post(
                self._url, data=body_of(lines, self._node_id), headers=headers, allow_redirects=False, ssl=tls
            ) as answer:
                said = await answer.content.read(ANSWER_MAX)
        except ConfigError as error:
            raise NotTaken(str(error)) from None
        except TimeoutError:
            raise NotTaken(f"{self._url} does not answer") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NotTaken(f"{self._url}: {error}") from None
        if answer.status in (200, 202, 204):
            return
        words = f"{self._url} answers {answer.status}: {said_in(said)}"
        if answer.status in _REFUSED:
            raise Refused(words)
        raise NotTaken(words, seconds_of(answer.headers.get("Retry-After")))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=1)
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session

    def _with_credentials(self) -> dict[str, str]:
        """Reads them each time: they may have been replaced."""
        if self._credentials is None:
            return self._headers
        line = read_credentials(self._credentials)
        shown = f"Basic {b64encode(line.encode()).decode()}" if ":" in line else f"Bearer {line}"
        return {**self._headers, "Authorization": shown}


def metadata_of(entry: Entry) -> dict[str, str]:
    """Returns the structured metadata of a line: names and texts."""
    owner = entry.owner
    found = {
        "job": owner.job,
        "instance": owner.instance,
        "attempt": str(owner.attempt),
        "token": str(entry.token),
        "line": str(entry.line.number),
    }
    if owner.worker:
        found["worker"] = owner.worker
    if entry.line.goes_on:
        found["goes_on"] = "true"
    return found


def body_of(lines: Sequence[Packed], node_id: str) -> bytes:
    """Returns what is pushed: the lines by their labels, in order."""
    streams: dict[tuple[str, str], list[bytes]] = {}
    for entry, data in lines:
        streams.setdefault((entry.owner.namespace, entry.line.stream), []).append(data)
    parts = []
    for (namespace, stream), values in streams.items():
        labels = {"service_name": SERVICE, "namespace": namespace, "stream": stream, "node": node_id}
        parts.append(b'{"stream":%b,"values":[%b]}' % (_encode(labels), b",".join(values)))
    return b'{"streams":[%b]}' % b",".join(parts)


def said_in(body: bytes) -> str:
    """Returns the beginning of an answer, in one line."""
    text = " ".join(body.decode("utf-8", "replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[:SAID_MAX]


def seconds_of(retry_after: str | None) -> float:
    """Returns what Retry-After asks for (RFC 9110, 10.2.3); 0.0: nothing, or a date."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
