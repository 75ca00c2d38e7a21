"""The HTTP surface of a node: parse, propose, answer.

`app.build_app(context.ApiContext)` gives an aiohttp application; everything it needs of the node is in the context.
No business logic lives here: what a command may do is decided in `raftsched.core.apply`, on every node alike.
"""
