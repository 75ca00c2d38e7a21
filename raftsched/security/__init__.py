"""Makes keys and certificates, and seals with them."""
