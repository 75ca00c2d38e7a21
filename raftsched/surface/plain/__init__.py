"""The API as text alone, made by scripts/make-client: addresses of operations and values of enumerations, for callers
that start without the structs."""
