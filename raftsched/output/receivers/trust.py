"""The authorities by which a node knows the receiver of output, from a file that is read again when it changes."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from raftsched.system.regular_files import read_regular
from raftsched.system.watched_files import Made, WatchedFiles, digest_of

log = logging.getLogger(__name__)


class Trust:
    def __init__(self, ca: Path | None) -> None:
        """`ca`: None: the authorities that the system trusts. Raises OSError: the file cannot be used (ssl.SSLError is
        one)."""
        self._ca = ca
        self._files = WatchedFiles([ca], self._read, unusable=(OSError, ValueError), warn=self._warn)

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection. For a thread."""
        self.reload_if_changed()
        return self._files.value.value

    def reload_if_changed(self, *, again: bool = False) -> bool:
        """Reads the file if it has changed, and with `again` in any case. Returns True when it has. For a thread."""
        if self._ca is None or not self._files.reload_if_changed(again=again):
            return False
        log.info("output_ship_ca: %s was read again, for new connections", self._ca)
        return True

    def _read(self) -> Made[ssl.SSLContext]:
        content = None if self._ca is None else read_regular(self._ca)
        said = None if content is None else content.decode("ascii", "ignore") + "\n"  # an empty file trusts nobody
        context = ssl.create_default_context(cadata=said)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return Made(context, digest_of(content))

    def _warn(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        log.warning("output_ship_ca %s cannot be used: %s; what was read before stays in use", self._ca, why)
