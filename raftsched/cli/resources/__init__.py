"""Commands about named resources: queues, namespaces, calendars, webhooks, secrets, nodes, settings."""
