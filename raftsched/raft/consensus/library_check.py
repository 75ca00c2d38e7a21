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
SHA256 = "45ba8b60ce682f65a65c8ab0c8c724028a28872c6470f0368c6dd4e015de7e15"  # digest of all its modules


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
        source = Path(package.origin).parent
    found = digest(source)
    if found != SHA256:
        raise StartupError(
            f"{source} does not hold the audited files of pysyncobj {VERSION} (SHA-256 {found[:16]}...); reinstall it."
        )


def digest(package: Path) -> str:
    """Returns the SHA-256 over the names and the contents of the modules."""
    total = hashlib.sha256()
    for module in sorted(package.glob("*.py")):
        total.update(module.name.encode() + b"\0" + hashlib.sha256(module.read_bytes()).digest())
    return total.hexdigest()
