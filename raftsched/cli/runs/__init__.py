"""Commands about runs: of jobs, dead letters, events."""
