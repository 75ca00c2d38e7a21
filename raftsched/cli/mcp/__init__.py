"""`raftsched mcp`: the cluster as tools for a language model, by the Model Context Protocol."""
