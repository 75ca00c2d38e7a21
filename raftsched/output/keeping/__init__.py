"""Writes, counts and prunes the output of runs on the disk of the node that ran them."""
