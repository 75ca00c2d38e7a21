"""Starts and ends the processes around runs: sentinel, supervisor, keepers, warm services; their lease, users and
limits."""
