"""The HTTP API, written once: its structs, its enumerations, and its operations as values.

The server serves them (`raftsched.api.serving`), /openapi.json is made of them, and scripts/make-client writes from
them the SDK's records and one-call methods (`raftsched/client/generated`) and what the command line knows
(`raftsched/surface/plain`: addresses and enumerations, as text alone). A subject has one module here, or several;
nothing lists the modules.
"""

PREFIX = "/v1/"  # of all addresses but those of `health` and `documents`
