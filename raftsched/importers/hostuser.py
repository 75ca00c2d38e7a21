"""Reads the accounts of this machine."""

from __future__ import annotations

import os
import pwd
import shutil


def is_account(name: str) -> bool:
    """Returns True when a user of this machine has this name, and no command has: `git` may be both, and tells nothing
    then."""
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError, OSError):
        return False
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return shutil.which(name, path=path) is None
