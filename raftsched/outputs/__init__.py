"""Output beyond the disk of the node that ran the job: a second copy on another node or in an object store, and search
on all nodes.

Copies are of parts of segments, byte by byte, so a place that the log names in a segment is good for its copy, too.
Nothing here holds up a run or its report: all of it begins when the output is on the disk and its end is told.
"""
