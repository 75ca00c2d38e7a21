"""raftsched: a job scheduler that is its own cluster."""

__version__ = "0.1.0"
