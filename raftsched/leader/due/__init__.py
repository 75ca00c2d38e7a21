"""From due times to fires: what is due next, and the commands by which it is due."""
