"""Reads files of other schedulers and calendars into jobs and days."""
