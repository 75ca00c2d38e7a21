"""The synchronous client: raftsched.Client."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from types import TracebackType

from raftsched.client.aio import AsyncClient
from raftsched.client.sync.bridge import Threaded, Within
from raftsched.client.sync.calls import Calls
from raftsched.client.transport import TIMEOUT_S


class Client(Calls):
    """Safe to use from any number of threads; creates of several threads travel together. A process that was forked off
    gets connections of its own.

    with Client("https://10.0.0.1:7401,https://10.0.0.2:7401") as client:
        job = client.jobs.create(trigger={"in": "5m"}, handler={"call": "send-invoice"}, params={"number": 7})
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        timeout: float = TIMEOUT_S,
        discover: bool = True,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        ca_file: str | PathLike[str] | None = None,
        client_cert: str | PathLike[str] | None = None,
        client_key: str | PathLike[str] | None = None,
        insecure: bool = False,
    ) -> None:
        """As AsyncClient."""
        given = servers if servers is None or isinstance(servers, str) else tuple(servers)
        self._threaded = Threaded(
            lambda: AsyncClient(
                given,
                timeout=timeout,
                discover=discover,
                token=token,
                token_file=token_file,
                ca_file=ca_file,
                client_cert=client_cert,
                client_key=client_key,
                insecure=insecure,
            )
        )
        super().__init__(self._threaded)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Creates that are under way are answered first."""
        self._threaded.close()

    def within(self, seconds: float) -> Calls:
        """The same client with another time for each request and its repeats, as in
        `client.within(2).jobs.get("default/nightly")`."""
        return Calls(Within(self._threaded, seconds))
