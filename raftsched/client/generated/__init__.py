"""The client's records and one-call methods, made by scripts/make-client from raftsched/surface."""
