"""Makes a node of a cluster: the parts that it consists of, the order in which they start and stop, and their
errors."""

from __future__ import annotations

from raftsched.node.failures import describe
from raftsched.node.node import Node, Sockets

__all__ = ["Node", "Sockets", "describe"]
