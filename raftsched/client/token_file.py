"""A token in a file, which is read again when it is replaced: by hand, or by whatever gives out tokens."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from raftsched.client.errors import ClientError
from raftsched.system.regular_files import open_regular
from raftsched.system.watched_files import WatchedFiles

TOKEN_MAX = 64 * 1024  # bytes of such a file

log = logging.getLogger(__name__)


def token_file(path: Path | str) -> TokenFile:
    """Returns the token in a file. Raises ClientError "no-token"."""
    try:
        return TokenFile(path)
    except ValueError as error:
        raise ClientError("no-token", f"the token file {error}") from None


def of_environment(environ: Mapping[str, str]) -> str | TokenFile | None:
    """Returns RAFTSCHED_TOKEN, else what is in RAFTSCHED_TOKEN_FILE; None: neither is said. Raises ClientError
    "no-token"."""
    if found := environ.get("RAFTSCHED_TOKEN"):
        return found
    path = environ.get("RAFTSCHED_TOKEN_FILE")
    return token_file(path) if path else None


def read_token(file: Path | str) -> str:
    """Returns the one line of a file. Raises ValueError: it cannot be read, or has no token."""
    try:
        with open_regular(file) as opened:
            raw = opened.read(TOKEN_MAX)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    token = raw.decode("latin-1").strip()  # any byte is a character then, and those of no token are refused
    if not token.isascii() or not token or not token.isprintable() or " " in token:
        raise ValueError(f"{file} has no token; it is to have one line, what 'tokens create' printed")
    return token


class TokenFile:
    """The token that is in a file, or was when the file last had one."""

    def __init__(self, path: Path | str) -> None:
        """Raises ValueError."""
        self.path = path
        self._watched = WatchedFiles([path], self._read, unusable=(ValueError,), warn=self._warn)

    @property
    def token(self) -> str:
        return self._watched.value

    def __call__(self, server: object) -> str:
        """Returns the token that is in the file now, to whichever server it goes: for who asks seldom."""
        self.reload_if_changed()
        return self.token

    @property
    def wrong(self) -> str | None:
        """The reason why the file has no token now; None: it has one."""
        return self._watched.wrong

    def reload_if_changed(self, *, again: bool = False) -> bool:
        """Reads the file if it has changed, and with `again` in any case. Returns True when there is another token. For
        a thread."""
        return self._watched.reload_if_changed(again=again)

    def _read(self) -> str:
        return read_token(self.path)

    def _warn(self, error: Exception) -> None:
        log.warning("%s; the token that was read before stays in use", error)
