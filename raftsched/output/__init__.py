"""The output of runs, from the keeper that gathers it to receivers beyond the cluster.

`format` has the bytes, `keeping` writes them on the disk of the node that ran the job, `reading` finds and shows them,
`following` brings them to a second place (another node, an object store), `receivers` sends their lines on (standard
output, Loki, syslog).

Copies are of parts of segments, byte by byte, so a place that the log names in a segment is good for its copy, too.
Nothing in `following` or `receivers` holds up a run or its report: all of it begins when the output is on the disk and
its end is told.
"""
