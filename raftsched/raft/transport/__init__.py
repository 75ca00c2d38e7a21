"""Connects the members: TLS or a cluster key, a handshake that proves both ends, then frames.

`transport` listens and dials, one link per peer; `link` is one connection with its handshake, `tls` seals its bytes,
`pending` bounds connections that have proved nothing yet, `refusals` counts and logs what was refused.
"""
