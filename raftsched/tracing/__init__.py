"""Traces, as OpenTelemetry has them: off unless a node or worker is told to trace, and then nothing of OpenTelemetry is
imported (docs/tracing.md).

Whoever may trace holds a `Tracer` or None, and asks once whether it has one. `ids.py` and `current.py` need no package;
all other modules here are imported when tracing is on. Nothing here waits for a collector.
"""
