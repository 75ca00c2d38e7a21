"""Makes a node a library: raftsched.Node, inside anybody's asyncio program.

What is added to the composition root (raftsched/node/node.py): start and stop in one piece whatever is cancelled
meanwhile, a client that reaches the node's own API without a socket, and handlers given by decorator. Nothing that
belongs to the whole process is touched: no logging is configured, no signal handler, event loop policy, umask or
control group is set. That is done by `process.py` alone, which is `raftsched node`: a process around one such node, and
nothing more.

Importing this loads nothing of the other rooms: the processes that run handlers import the program's modules, too.
"""
