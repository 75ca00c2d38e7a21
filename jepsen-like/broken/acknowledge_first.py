"""A build that acknowledges what is not on the disk: no commit is synced. The harness has to see acknowledged jobs lost
when the power fails everywhere."""

from pathlib import Path
from typing import Any

from raftsched.cli.main import main
from raftsched.store.store import Store

real = Store.open.__func__  # type: ignore[attr-defined]


def opened(cls: type[Store], directory: Path, **given: Any) -> Any:
    return real(cls, directory, **(given | {"sync": False}))


Store.open = classmethod(opened)  # type: ignore[assignment,method-assign]
main()
