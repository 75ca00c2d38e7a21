"""Commands about the cluster: nodes, members, backup, benchmark."""
