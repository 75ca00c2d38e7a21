"""Named resources: queues, namespaces, calendars, webhooks, secrets, nodes, settings."""
