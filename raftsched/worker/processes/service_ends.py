"""Makes the ends of runs in services: of what the service said of them, what they were asked, what its keeper saw."""

from __future__ import annotations

from msgspec.structs import replace

from raftsched.worker.processes import wire
from raftsched.worker.processes.limits import blamed
from raftsched.worker.processes.tree import LEASE_ENDED, asked_error, describe_exit
from raftsched.worker.processes.warm_process import Run, Service

NOT_ALONE = "its process ended, which it shared with other runs"


def as_asked(run: Run, done: wire.Finished) -> wire.Finished:
    """Returns what a service said of a run's end, or what the run was asked before, which counts more."""
    if run.asked is None:
        return done
    said = done.said and wire.SelfReport(done.said.percent, done.said.text, done.said.kept)
    error = asked_error(run.asked, run.launch.timeout_ms, run.reason)
    return replace(done, outcome=run.asked, error=error, said=said)


def left_end(service: Service, run: Run, gone: wire.ServiceExited, now_ms: int, *, shared: bool) -> wire.Finished:
    """Returns the end of a run that was in a service of which nothing is left. `shared`: others were in it."""
    several = service.room > 1
    output = run.output if several else gone.output if service.kind == "python" else None
    if run.answer is not None:
        return with_output(run.answer, run, output)
    token = run.launch.token
    done = wire.Finished(token, wire.LOST, run.started_at_ms, max(now_ms, run.started_at_ms))
    if gone.lost:
        done = replace(done, error=LEASE_ENDED)
    elif run.asked is not None:
        done = as_asked(run, done)
    elif gone.not_begun:
        return wire.not_begun(token, gone.not_begun, now_ms)
    elif gone.for_node:
        done = replace(done, outcome=wire.KILLED, error=wire.NODE_STOPPED)
    else:
        tail = (run.output.tail if several and run.output is not None else "") or gone.output.tail
        limits = wire.decode_task(run.launch.task).limits if service.kind == "python" and not several else None
        why = blamed(limits, gone.exit_code, tail, gone.used_cpu_s, gone.killed_for_memory)
        what = describe_exit(gone.exit_code, why)
        if service.cut_for or shared:  # nobody knows that it was this run which ended it
            done = replace(done, alone=True, error=f"{NOT_ALONE}: {service.cut_for or what}")
        else:
            error = wire.failure(f"the process ended before the function returned: {what}", tail)
            done = replace(done, outcome=wire.FAILED, exit_code=gone.exit_code, error=error)
    return with_output(done, run, output)


def with_output(done: wire.Finished, run: Run, output: wire.Collected | None) -> wire.Finished:
    """Returns the end with what the run printed. None: what `done` has of it."""
    kept = done if output is None else output
    started_at_ms = run.started_at_ms if done.started_at_ms is None else done.started_at_ms
    return replace(
        done, started_at_ms=started_at_ms, frames=kept.frames, spooled=kept.spooled, truncated=kept.truncated
    )
