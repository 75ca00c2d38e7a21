"""Keeps backups in repositories: full backups and segments of the log between them, under names that tell their
content.

There is no catalogue that could be stale: a list of names is all that is known, and all that is needed to say which
points in time can be restored, and what nothing needs any more. Several processes may write to one repository at once.
"""
