"""Decides what the log means, and does nothing else: model, commands, transitions and apply.

Integers and bytes only; no clock, no random, no calendar, no I/O. The same entries applied to the same tables give
the same bytes on every node, forever. Everything that varies between machines arrives as a field of a command.
"""
