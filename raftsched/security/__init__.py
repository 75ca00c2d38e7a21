"""Keys, certificates, and sealing with them."""
