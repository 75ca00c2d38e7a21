"""Brings output to other places: to another node, or into an object store; and the loop by which lines are shipped."""
