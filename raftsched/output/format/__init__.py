"""Defines the bytes of output on disk: spool files of runs, records and segments."""
