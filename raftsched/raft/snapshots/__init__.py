"""Snapshots: the whole state for a follower whose next entries are compacted away.

The leader offers a copy of its state: an index, its term, size and SHA-256. The follower answers with the offset up to
which it has exactly this copy. Chunks follow from there on, each with its place and a checksum, no more than a window
of them ahead of what is acknowledged. Whatever goes wrong on the way, the copy is offered again and the transfer goes
on where it was. What has arrived is verified as a whole, made ready beside the store, and swapped in between two write
batches, never over a newer state. Files are read, written and deleted by the side writer, never on the event loop.
"""

from raftsched.raft.snapshots.files import clear
from raftsched.raft.snapshots.installer import Installer
from raftsched.raft.snapshots.sender import Sender

__all__ = ["Installer", "Sender", "clear"]
