"""An example of a package with handlers for raftsched."""
