"""The web page: static files that every node serves below /ui/. They use the public API and nothing else."""
