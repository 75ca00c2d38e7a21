"""The cluster itself: members, health, metrics, snapshots."""
