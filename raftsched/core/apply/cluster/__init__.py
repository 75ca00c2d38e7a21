"""Applies commands about the cluster itself: members, sessions, settings, backups; and the audit."""
