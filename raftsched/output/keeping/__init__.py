"""The output of runs on the disk of the node that ran them: written, counted, pruned."""
