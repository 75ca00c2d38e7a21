"""raftsched.Client: a cluster, for programs without an event loop.

It is AsyncClient in an event loop of its own, which runs in a thread (`bridge.py`, `loop.py`). The methods themselves
are written once, in the modules of the asynchronous client; `scripts/make-sync` makes those of this package from them,
with their types and docstrings, and a test holds the two against each other.
"""
