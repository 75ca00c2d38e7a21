"""`raftsched doctor`: checks of this machine and of the cluster."""
