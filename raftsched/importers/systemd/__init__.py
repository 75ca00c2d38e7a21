"""Timers of systemd, read from unit files: nothing is asked of systemd itself. `units` puts files and drop-ins
together, `calendar` reads OnCalendar=, `spans` lengths of time, `commands` ExecStart=; `services` makes the handler,
`timers` the jobs."""
