"""Looks at conditions on the worker's machine: files, and servers that answer."""
