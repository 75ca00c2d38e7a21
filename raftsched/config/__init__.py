"""The configuration of a node: flags, environment, file, defaults; checked as one."""
