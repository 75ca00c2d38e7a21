"""Input and output of commands: tables, JSON, YAML, progress, completion."""
