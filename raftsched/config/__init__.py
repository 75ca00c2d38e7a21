"""Reads the configuration of a node from flags, environment, file and defaults, and checks it as one."""
