"""The options of runs: flags of a node or remote worker that each process between it and its runs gets."""

from __future__ import annotations

import msgspec


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all runs, whatever their jobs say: each is the flag of that name (config/flags.py), which has its
    default. They travel as this struct, so that only whoever acts on one names it again."""

    python_first: tuple[str, ...] = ()  # modules that are imported before those of functions
    env_pass: tuple[str, ...] = ()  # variables of the node's own environment that runs see beside the usual ones
    # a process for python handlers is replaced after so many runs, and when it has so many bytes in memory after one
    python_runs_max: int
    python_memory_max: int
    pids_max: int  # processes of a run in a group, or of a user where runs have no groups
    memory_max: int | None = None  # bytes that a run gets at most; None: as much as there is
    allow_new_privileges: bool = False  # of programs with the set-user-ID bit, such as sudo
    nice: int  # of runs, beyond that of the node
