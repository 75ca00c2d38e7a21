"""Commands about runs: instances, dead letters, events."""
