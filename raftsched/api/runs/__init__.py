"""Runs of jobs: instances, their output and explanation, dead letters, events, statistics."""
