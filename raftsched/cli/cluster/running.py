"""Options of whatever runs jobs: nodes and remote workers."""

from __future__ import annotations

import click

_flag = click.option

RUNNING = (
    _flag("--weight", metavar="N", help="One of its slots counts for so many of others.  [default: 1]"),
    _flag("--pythonpath", metavar="DIR", multiple=True, help="Where python handlers are; may be repeated."),
    _flag("--handlers", metavar="MODULE", multiple=True, help="Registers handlers by name; may be repeated."),
    _flag("--python-runs-max", metavar="N", help="Replace a python process after so many.  [default: 10000]"),
    _flag("--python-memory-max", metavar="SIZE", help="Or when it has grown to this.  [default: 512MiB]"),
    _flag("--output-max", metavar="SIZE", help="Output kept of an attempt here.  [default: as the settings say]"),
    _flag("--log-format", metavar="FORMAT", help="text, or json: an object a line.  [default: text]"),
    _flag(
        "--tracing", is_flag=True, help="Sends OpenTelemetry spans, as variables OTEL_... say; needs raftsched[otel]."
    ),
    _flag("--executors", metavar="KIND,...", help="Offers only these: exec, shell, python, http, call."),
    _flag("--exec-allow", metavar="PATH", multiple=True, help="Programs that exec may start: /opt/jobs/*; repeat."),
    _flag("--env-allow", metavar="NAME", multiple=True, help="Variables that jobs may set then: APP_*; repeat."),
    _flag("--cwd-allow", metavar="DIR", multiple=True, help="Where jobs may run and conditions look; repeat."),
    _flag("--python-allow", metavar="MODULE", multiple=True, help="What python may call: shop.*, shop.mail:send."),
    _flag("--http-allow", metavar="RULE", multiple=True, help="Hosts and networks beside public ones; repeat."),
    _flag("--http-deny", metavar="RULE", multiple=True, help="Hosts and networks that jobs must not ask; repeat."),
    _flag("--run-as", metavar="NAMESPACE=USER", multiple=True, help="As whom its jobs run; default=USER: all others."),
    _flag("--jobs-as-node", is_flag=True, help="Jobs may run as its own user, and so reach its data and its keys."),
    _flag("--users-allowed", metavar="NAMESPACE=USER", multiple=True, help="Whom jobs may ask for as well; repeat."),
    _flag("--pids-max", metavar="N", help="Processes of a run.  [default: 4096]"),
    _flag("--memory-max", metavar="SIZE", help="Memory that a run may have, whatever its job says."),
    _flag("--allow-new-privileges", is_flag=True, help="Jobs may use sudo and other set-user-ID programs."),
    _flag("--nice", metavar="N", help="By how much runs give way to the node, 0 to 19.  [default: 5]"),
)
