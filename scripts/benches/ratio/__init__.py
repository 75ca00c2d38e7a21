"""Processor time of this checkout as a ratio to another version's, and what may not rise without a reason."""
