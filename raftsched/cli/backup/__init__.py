"""Commands about repositories of backups. All but `run` work without a node."""
