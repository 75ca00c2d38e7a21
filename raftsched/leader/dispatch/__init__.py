"""From ready runs to workers: which run goes next, and who gets it."""
