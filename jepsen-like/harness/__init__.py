"""Real processes, real faults, and a checker that knows nothing of how the cluster works.

`cluster` and `network` start node processes and what lies between them; `nemesis` hurts them; `workloads` use them
as clients do and write down every call (`history`); `checkers` judge the history and the files that the jobs wrote;
`report` draws it.
"""
