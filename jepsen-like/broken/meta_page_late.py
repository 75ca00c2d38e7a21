"""A build whose commits are synced but for the page by which they are found: it comes onto the disk with the next one.
The harness has to see acknowledged jobs lost when the power fails everywhere."""

from pathlib import Path
from typing import Any

from raftsched.cli.main import main
from raftsched.store.store import Store

real = Store.open.__func__  # type: ignore[attr-defined]


def opened(cls: type[Store], directory: Path, **given: Any) -> Any:
    return real(cls, directory, **(given | {"metasync": False}))


Store.open = classmethod(opened)  # type: ignore[assignment,method-assign]
main()
