"""Refuses to start on any pysyncobj other than the one whose source was read line by line.

The engine overrides private methods of the library, so another release may silently call something else.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

from raftsched.errors import StartupError

VERSION = "0.3.17"
SHA256 = "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"


def check(version: str | None = None, source: Path | None = None) -> None:
    """Raises StartupError unless the installed library is the audited one. The parameters are for tests."""
    try:
        version = version or importlib.metadata.version("pysyncobj")
    except importlib.metadata.PackageNotFoundError:
        raise StartupError(f"pysyncobj is not installed; install pysyncobj=={VERSION}.") from None
    if version != VERSION:
        raise StartupError(f"pysyncobj {version} is installed; install pysyncobj=={VERSION}, the audited version.")
    if source is None:
        package = importlib.util.find_spec("pysyncobj")
        if package is None or package.origin is None:
            raise StartupError(f"pysyncobj cannot be found; install pysyncobj=={VERSION}.")
        source = Path(package.origin).with_name("syncobj.py")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    if digest != SHA256:
        raise StartupError(
            f"{source} is not the audited file of pysyncobj {VERSION} (SHA-256 {digest[:16]}...); reinstall it."
        )
