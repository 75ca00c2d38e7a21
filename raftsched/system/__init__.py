"""Deals with the process and its machine: clock, background tasks, files, descriptors, memory. It knows nothing of
jobs."""
