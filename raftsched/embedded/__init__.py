"""A node as a library: raftsched.Node, inside anybody's asyncio program.

`raftsched node` is a process around the very same composition root (raftsched/node.py). What is added here: start and
stop in one piece whatever is cancelled meanwhile, a client that reaches the node's own API without a socket, and
handlers given by decorator. Nothing that belongs to the whole process is touched: no logging is configured, no signal
handler, event loop policy, umask or control group is set.

Importing this loads nothing of the other rooms: the processes that run handlers import the program's modules, too.
"""
