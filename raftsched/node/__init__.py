"""A node of a cluster: the parts that it consists of, the order in which they start and stop, and their errors."""

from __future__ import annotations

from raftsched.node.failures import describe
from raftsched.node.node import ELECTIONS_MS, Node, Sockets

__all__ = ["ELECTIONS_MS", "Node", "Sockets", "describe"]
