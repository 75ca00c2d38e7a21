"""Keys, certificates, and what is sealed with them."""
