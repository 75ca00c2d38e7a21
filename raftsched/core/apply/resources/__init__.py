"""Applies commands about what operators set: queues, namespaces, calendars, secrets, webhooks, nodes, tokens."""
