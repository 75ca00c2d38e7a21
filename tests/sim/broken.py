"""The product with one rule of levels out, each as a patch for as long as a run lasts.

The rule is taken out of this version, and of the one that is made up (code.py): each of them may be the newer one in a
run. A released version stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tests.sim.code import TODAY, later
from tests.sim.versions import VersionsClient


def _modules(name: str) -> list[ModuleType]:
    return [code.module(name) for code in (TODAY, later())]


@contextmanager
def _patched(name: str, attribute: str, make: Callable[[ModuleType, Any], Any]) -> Iterator[None]:
    """In both versions: `make(module, what is there)` is what takes its place. `attribute`: of the module, or
    `Class.method`."""
    with ExitStack() as stack:
        for module in _modules(name):
            kind, _, method = attribute.rpartition(".")
            target = getattr(module, kind) if kind else module
            stack.enter_context(patch.object(target, method, make(module, getattr(target, method))))
        yield


# ---------------------------------------------------------------- what is proposed


@contextmanager
def later_commands_pass() -> Iterator[None]:
    """Commands are proposed whatever the level of the cluster is."""
    with _patched("raft.replica", "Replica.fitted", lambda module, real: lambda self, commands: commands):
        yield


@contextmanager
def later_fields_pass() -> Iterator[None]:
    """Only the commands themselves are held against the level, and none of their fields."""

    def by_command(module: ModuleType, real: Any) -> Any:
        levels = import_module(module.__name__.replace("raft.replica", "core.levels"))
        return lambda raw, level: levels.level_of([raw]) > max(level, levels.BEGAN)

    with (
        _patched("raft.replica", "is_later", by_command),
        _patched("raft.replica", "fitted", lambda module, real: lambda raw, level: raw),
    ):
        yield


@contextmanager
def sparing_fields_stay() -> Iterator[None]:
    """Fields that an earlier level goes without are not left out."""
    with _patched("raft.replica", "fitted", lambda module, real: lambda raw, level: raw):
        yield


# ---------------------------------------------------------------- when it rises


@contextmanager
def all_are_taken_to_know() -> Iterator[None]:
    """The leader takes all nodes for as new as itself."""

    class Everybody(dict[str, int]):
        def get(self, node: str, default: Any = 0) -> Any:
            return 1_000

    with _patched("leader.liveness.vitals", "Vitals.levels", lambda module, real: lambda self, now_ms: Everybody()):
        yield


@contextmanager
def the_silent_are_not_asked() -> Iterator[None]:
    """Only nodes that were heard of have to know a level."""

    class Heard(dict[str, int]):
        def get(self, node: str, default: Any = 0) -> Any:
            return super().get(node, 1_000)

    def make(module: ModuleType, real: Any) -> Any:
        return lambda self, now_ms: Heard(real(self, now_ms))

    with _patched("leader.liveness.vitals", "Vitals.levels", make):
        yield


@contextmanager
def holding_is_forgotten() -> Iterator[None]:
    """The setting that holds the level is not looked at: by the leader, nor when the level is raised."""

    def free(module: ModuleType, real: Any) -> Any:
        def read(view: Any) -> Any:
            meta = real(view)
            meta.settings = replace(meta.settings, upgrade_hold=0)
            return meta

        return read

    def raised(module: ModuleType, real: Any) -> Any:
        def raise_level(tx: Any, command: Any) -> Any:
            settings = tx.meta.settings
            tx.meta.settings = replace(settings, upgrade_hold=0)
            try:
                return real(tx, command)
            finally:
                tx.meta.settings = settings

        return raise_level

    with (
        _patched("leader.level", "read_meta", free),
        _replaced("RaiseLevel", raised),
    ):
        yield


@contextmanager
def _replaced(command: str, make: Callable[[ModuleType, Any], Any]) -> Iterator[None]:
    """What applies a command."""
    with ExitStack() as stack:
        for module, commands in zip(_modules("core.apply.dispatch"), _modules("core.commands"), strict=True):
            kind = getattr(commands, command)
            stack.enter_context(patch.dict(module.HANDLERS, {kind: make(module, module.HANDLERS[kind])}))
        yield


# ---------------------------------------------------------------- who knows less


@contextmanager
def older_nodes_raise_it() -> Iterator[None]:
    """A node that does not know the level which the cluster rises to applies that, and goes on."""
    with _patched("core.apply.cluster.membership", "check_level", lambda module, real: lambda level: None):
        yield


@contextmanager
def older_nodes_take_snapshots() -> Iterator[None]:
    """A node goes on with a state of a later level that it was sent."""
    with _patched("raft.replica", "check_level", lambda module, real: lambda level: None):
        yield


@contextmanager
def older_nodes_open_the_store() -> Iterator[None]:
    """A node starts with a store of a later level: its own, from before it was taken back."""
    with (
        _patched("store.store", "check_level", lambda module, real: lambda level: None),
        _patched("raft.replica", "check_level", lambda module, real: lambda level: None),
    ):
        yield


# ---------------------------------------------------------------- what apply does


@contextmanager
def backups_are_noted_early() -> Iterator[None]:
    """Apply writes a row of a later level in every cluster."""
    with (
        _patched("core.apply.cluster.backups", "BACKUPS_ARE_NOTED", lambda module, real: 1),
        _patched("core.apply.cluster.membership", "BACKUPS_ARE_NOTED", lambda module, real: 1),
    ):
        yield


@contextmanager
def entries_say_no_level() -> Iterator[None]:
    """Entries do not say which level their commands are of. While commands of later levels wait, an older node has
    stopped before it is sent one: so they are proposed whatever the level is, all but those with later fields. That
    they are taken is no violation here: what counts is what nodes make of them."""

    def by_fields(module: ModuleType, real: Any) -> Any:
        levels = import_module(module.__name__.replace("raft.replica", "core.levels"))
        return lambda raw, level: levels.level_of([raw]) <= max(level, levels.BEGAN) and real(raw, level)

    with (
        _patched("core.entry", "level_of", lambda module, real: lambda raws: 1),
        _patched("raft.replica", "is_later", by_fields),
        patch.object(VersionsClient, "may_be_taken", True),
    ):
        yield


PATCHES: dict[str, Callable[[], Any]] = {
    "later_commands_wait": later_commands_pass,
    "later_fields_wait": later_fields_pass,
    "sparing_fields_are_left_out": sparing_fields_stay,
    "level_known_to_all": all_are_taken_to_know,
    "level_known_to_silent_ones": the_silent_are_not_asked,
    "held_level_stays": holding_is_forgotten,
    "older_nodes_stop": older_nodes_raise_it,
    "older_nodes_refuse_snapshots": older_nodes_take_snapshots,
    "older_nodes_refuse_stores": older_nodes_open_the_store,
    "later_rows_wait": backups_are_noted_early,
    "entries_say_their_level": entries_say_no_level,
}


@contextmanager
def without_rules(names: str | None) -> Iterator[None]:
    """Takes out those of these ("one,other") that are patches."""
    with ExitStack() as stack:
        for name in (names or "").split(","):
            if name in PATCHES:
                stack.enter_context(PATCHES[name]())
        yield
