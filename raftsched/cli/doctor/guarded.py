"""One check that cannot be made takes none of the others with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from raftsched.doctor import Finding


def guarded(check: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Gives the findings of a check; where it raises, that is the finding."""
    try:
        yield from look()
    except Exception as error:  # whatever it is: the others are still to come
        yield Finding(check, "warn", f"could not be looked at: {reason(error)}", _do(error))


def reason(error: Exception) -> str:
    """Returns what went wrong, with the file where there is one."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror.lower()}"
    return f"{type(error).__name__}: {error}"


def _do(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "run this as the node's user, or as root"
    return "look at it by hand; the other checks hold all the same"
