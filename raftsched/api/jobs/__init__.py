"""Jobs: parsed, stored, rendered, and acted on, one or many."""
