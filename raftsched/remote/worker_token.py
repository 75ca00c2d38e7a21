"""The token of a remote worker, when its file gets another one: sessions are the token's that opened them, so a session
that is open is given to the new token before that one is used (docs/tokens.md).

Nothing that runs is touched by it. While the session changes hands no request is sent with the earlier token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from raftsched.client.token_file import TokenFile
from raftsched.remote.server_port import NoAnswer, Refused, SessionOver

LOOK_S = 1.0  # between two looks at the file
UNAUTHORIZED, FORBIDDEN = 401, 403
_UNKNOWN = (404, 405)  # a node of before 0.3.0 asks for no such thing

# Asks for a session to be given to a token: session, the earlier token, the new one.
Bind = Callable[[str, str, str], Awaitable[None]]

log = logging.getLogger(__name__)


class WorkerToken:
    """`in_use` is what requests are sent with."""

    def __init__(self, token: str | None, file: TokenFile | None = None) -> None:
        """`file`: where the token is from, if it is from one."""
        self.in_use = token
        self.incarnation = ""  # as the session was opened with
        self._file = file
        self._lock = asyncio.Lock()
        self._said = ""

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[str | None]:
        """Gives the token, which stays in use meanwhile."""
        async with self._lock:
            yield self.in_use

    async def settled(self) -> str | None:
        """Returns the token that is in use once no session changes hands."""
        if self._lock.locked():
            async with self._lock:
                pass
        return self.in_use

    async def renew(self, session: Callable[[], str], bind: Bind, used: str | None, *, again: bool = False) -> bool:
        """Takes the token that is in the file, if that is another one than is in use, with the session that is open
        ("": none is). Returns True when another one than `used` is in use now. `again`: what was used is refused, and
        the file is read whatever its time says. Raises nothing."""
        if self._file is None:
            return False
        async with self._lock:
            if used != self.in_use:
                return True
            await asyncio.to_thread(self._file.reload_if_changed, again=again)
            found, open_one = self._file.token, session()
            if found == self.in_use or not await self._is_taken(open_one, found, bind, again):
                return False
            self.in_use, self._said = found, ""
            goes_on = f"; session {open_one.partition('-')[0]} goes on with it" if open_one else ""
            log.info("the token in %s is used from now on%s", self._file.path, goes_on)
            return True

    @property
    def waits(self) -> str:
        """The words for the operator where the file holds another token than is in use, or none; else empty."""
        if self._file is None:
            return ""
        if self._file.wrong is not None:
            return f"{self._file.wrong}; the token that was read before stays in use"
        return self._words() if self._file.token != self.in_use and self._said else ""

    async def _is_taken(self, session: str, found: str, bind: Bind, refused: bool) -> bool:
        """Returns whether the session can go on with the token that was found, or cannot go on with the earlier one
        either."""
        if not session or self.in_use is None:
            return True
        try:
            await bind(session, self.in_use, found)
        except SessionOver:
            return True  # the next poll says so
        except Refused as error:
            if error.status in _UNKNOWN:
                return True
            self._log_new(f"is refused: {error.detail.rstrip('.')}")
            return refused and error.status == FORBIDDEN
        except NoAnswer as error:
            self._log_new(f"cannot be used yet: {error}")
            return False
        return True

    def _log_new(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("%s", self._words())

    def _words(self) -> str:
        assert self._file is not None
        return f"the token in {self._file.path} {self._said}; the one before stays in use"
