"""Rules by which a run that has ended is told of, and its output is kept as it is said; what traces must not tell; and
how a node keeps its keys."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ENDS = ("unit/worker/test_kept_ends.py",)
_OUTPUT = ("unit/worker/test_output.py",)
_SYSTEMD = ("unit/embedded/test_systemd.py",)
_KEYRING = ("unit/security/test_keyring.py",)

RUNNING = (
    Mutant(
        "kill_of_the_log_not_seen",
        "whoever leads, a worker ends the run that the log asks to end",
        "worker/worker.py",
        "                elif isinstance(action, KillAsked):\n"
        "                    if action.session == session and action.token in self._started:\n",
        "                elif isinstance(action, KillAsked):\n                    if False:\n",
        ("unit/worker/test_worker_runs.py",),
        None,
    ),
    Mutant(
        "kill_before_the_snapshot_not_seen",
        "a worker that learns by a snapshot that its run was asked to end ends it",
        "worker/worker.py",
        "if row is not None and decode_instance(row).kill_asked:",
        "if False:",
        ("unit/worker/test_worker_runs.py",),
        None,
    ),
    Mutant(
        "ends_forgotten_by_a_restart",
        "what an earlier process of a node could not report is reported by the next",
        "worker/worker.py",
        "            self._reports.restore(await asyncio.to_thread(self._kept_ends.read))\n",
        "",
        _ENDS,
        None,
    ),
    Mutant(
        "ends_kept_by_a_stop_only",
        "an end that the log does not take is on the disk before a kill",
        "worker/worker.py",
        "        self._keep_ends(now)\n",
        "",
        _ENDS,
        None,
    ),
    Mutant(
        "ends_of_another_store",
        "ends that were kept beside another store are of other runs",
        "worker/kept_ends.py",
        "return found.commands if found.store_id == self._store_id else ()",
        "return found.commands",
        _ENDS,
        None,
    ),
    Mutant(
        "ends_held_against_old_tables",
        "tables that do not know an attempt yet do not say that it is over",
        "worker/reports.py",
        "if not live and token <= known:",
        "if not live:",
        _ENDS,
        None,
    ),
    Mutant(
        "output_as_it_was_said_once",
        "a changed setting holds for the output of what starts from then on",
        "worker/worker.py",
        "                    self._forget_output_rules()\n",
        "                    pass\n",
        ("unit/worker/test_worker_runs.py",),
        None,
    ),
    Mutant(
        "output_of_all_by_one_age",
        "a namespace that says how long output is kept is obeyed",
        "worker/output.py",
        "newest < own.get(segment.owner, ms)",
        "newest < ms",
        _OUTPUT,
        None,
    ),
    Mutant(
        "output_young_with_its_segment",
        "a segment that is written to all the time does not keep what is too old",
        "worker/output.py",
        "                        self._finished.add(number)\n",
        "                        pass\n",
        _OUTPUT,
        None,
    ),
    Mutant(
        "notices_for_whoever_is_started",
        "what a service starts cannot speak for it to systemd",
        "embedded/systemd.py",
        'environ.pop(name, "")',
        'environ.get(name, "")',
        _SYSTEMD,
        None,
    ),
    Mutant(
        "no_beat_without_a_standing",
        "a service that cannot say how it stands beats on, or systemd would end it",
        "embedded/systemd.py",
        "        except Exception:  # whatever it is",
        "        except OSError:  # whatever it is",
        _SYSTEMD,
        None,
    ),
    Mutant(
        "strangers_join_traces",
        "a caller's trace is joined when the caller is let in, not before",
        "api/http/traces.py",
        "        request[_TRACE] = trace\n",
        "        request[_TRACE] = trace\n        trace.join(request.headers)\n",
        ("integration/api/http/test_traces.py",),
        None,
    ),
    Mutant(
        "traces_show_errors_of_runs",
        "what a run printed, and its error quotes, is in no span",
        "worker/run_traces.py",
        "span.set_status(Status(StatusCode.ERROR, outcome))",
        "span.set_status(Status(StatusCode.ERROR, end.error))",
        ("unit/worker/test_run_traces.py",),
        None,
    ),
    Mutant(
        "key_for_everybody_where_it_is_roots",
        "of a key file of root its group may read it, and nobody else anything",
        "security/keyring.py",
        "_OTHERS & ~stat.S_IRGRP",
        "0",
        _KEYRING,
        None,
    ),
    Mutant(
        "key_for_any_group",
        "a key file that is not root's is its owner's alone",
        "security/keyring.py",
        "_OTHERS if found.st_uid != 0 else _OTHERS_OF_ROOT",
        "_OTHERS_OF_ROOT",
        _KEYRING,
        None,
    ),
)
