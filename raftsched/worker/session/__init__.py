"""The session of a node's worker: opened, kept alive, given runs, and their ends reported until the log has them."""
