"""Ships what runs print to a receiver beyond the cluster: standard output, Loki, or syslog.

It begins when an attempt has ended and its output is on this node's disk, so it holds up no run and no report, and a
receiver that is down loses nothing that is still kept. A kept mark for each segment says how far the receiver has taken
it, and how far a namespace is ahead there; it moves only after that. So each line comes at least once, and again where
the mark was lost: a line is known by the token of its attempt and its number.
"""
