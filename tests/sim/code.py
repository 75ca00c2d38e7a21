"""The code that a node runs: this version's, a released one's, or a later one's that is made up here.

Other versions are loaded beside this one (tests/golden/frozen.py), each with classes of its own. What the simulator is
given by their nodes it turns into what this version would have given: it knows no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import raftsched
from raftsched import errors
from raftsched.core.commands import Rejected
from raftsched.core.levels import newest_level
from raftsched.raft import codec
from raftsched.version import __version__
from tests.golden.frozen import OWN, frozen, load, offer
from tests.golden.releases import Release

# Where released versions had a module that is elsewhere now (the newest of these versions -> name of today -> place).
MOVED = {
    (0, 2, 0): {
        "core.subjects.leasing": "core.leasing",
        "leader.liveness.vitals": "leader.vitals",
    }
}

# What the made-up version has beside this one: a level, of which these are. Some came earlier; nodes of this version
# are not asked for them as long as there is one of the other.
_MORE = """
from raftsched.core.subjects.backups import NoteBackup

HISTORY[{level}] = "what is made up for tests"
SINCE[NoteBackup] = {level}
PARTS_SINCE[Policy, "expires_ms"] = {level}
PARTS_SINCE[Policy, "env"] = {level}
"""


@dataclass(frozen=True, eq=False)
class Code:
    """One version. `package`: the name that its modules are imported by."""

    version: str
    level: int  # the newest that it knows
    package: str = OWN

    def module(self, name: str) -> ModuleType:
        """Returns a module by the name that it has today, without the package's."""
        for newest, places in MOVED.items():
            if self.is_released and tuple(map(int, self.version.split("."))) <= newest:
                name = places.get(name, name)
        return import_module(f"{self.package}.{name}")

    @property
    def is_released(self) -> bool:
        return self.package not in (OWN, LATER)

    # ------------------------------------------------------------ what a process is made of

    @cached_property
    def startup_error(self) -> type[Exception]:
        found: type[Exception] = self.module("errors").StartupError
        return found

    def make(self, module: str, kind: str, *args: Any, **kwargs: Any) -> Any:
        """Returns an object of a class of this version."""
        return getattr(self.module(module), kind)(*args, **kwargs)

    def own(self, module: str, options: Any) -> Any:
        """Returns a dataclass of today's code as the same one of this version, which may have fewer fields."""
        if self.package == OWN:
            return options
        kind = getattr(self.module(module), type(options).__name__)
        return kind(**{field.name: getattr(options, field.name) for field in fields(kind) if field.init})

    # ------------------------------------------------------------ what goes in and comes out

    def encoded(self, commands: Sequence[bytes]) -> Sequence[bytes]:
        """Returns commands as a caller of this version would send them: with the fields that it knows."""
        if self.package == OWN:
            return commands
        own = self.module("core.commands")
        return [own.encode(own.decode(raw)) for raw in commands]

    def answer(self, answer: Any) -> Any:
        """Returns what a call brought, with refusals of today."""
        if self.package == OWN or not isinstance(answer, list):
            return answer
        own = self.module("core.commands").Rejected
        return [Rejected(one.code, one.detail) if isinstance(one, own) else one for one in answer]

    def error(self, error: Exception) -> Exception:
        """Returns the error that today's code has in the place of this one."""
        kind = getattr(errors, type(error).__name__, None)
        if self.package == OWN or kind is None or isinstance(error, errors.RaftschedError):
            return error
        code, detail = getattr(error, "code", ""), str(error)
        return errors.RaftschedError(code, detail) if kind is errors.RaftschedError else kind(detail)

    def frame(self, frame: Any) -> Any:
        """Returns a message between nodes as a node of today reads it."""
        if self.package == OWN:
            return frame
        return codec.decode(self.module("raft.codec").payload(frame))

    def adapt(self, raft: Any) -> None:
        """Does what a version does not do by itself: one before 0.3.0 that is sent a snapshot of a level which it does
        not know raises, and goes on doing nothing. Here it stops, as an operator would see to."""
        if self.level >= 6:
            return
        driver, newer = raft._replica.driver, self.module("core.entry").NewerLog
        finished = driver._finished

        def contained(result: Any, error: BaseException | None, done: Callable[[Any], None]) -> None:
            try:
                finished(result, error, done)
            except newer as raised:
                driver.stopped = True
                driver._on_fatal(raised)

        driver._finished = contained


LATER = f"{OWN}_later"
TODAY = Code(__version__, newest_level())


@cache
def released(release: Release) -> Code:
    return Code(release.version, release.level, load(release))


@cache
def later() -> Code:
    """Returns a version after this one, which knows one level more."""
    root = Path(raftsched.__file__).parent
    level = newest_level() + 1
    sources = {f"{OWN}/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*.py")}
    sources[f"{OWN}/core/levels.py"] += _MORE.format(level=level).encode()
    offer(LATER, sources)
    return Code("later", level, LATER)


def pairs() -> list[Callable[[], tuple[Code, Code]]]:
    """Returns the pairs of versions that may run side by side, each with the older one first."""

    def pair(release: Release) -> Callable[[], tuple[Code, Code]]:
        return lambda: (released(release), TODAY)

    return [*map(pair, frozen()), lambda: (TODAY, later())]
