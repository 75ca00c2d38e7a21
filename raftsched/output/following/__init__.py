"""Brings output to other places: to another node, or into an object store."""
