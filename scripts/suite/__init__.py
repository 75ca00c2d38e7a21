"""The test suite as `./scripts/test` runs it: what belongs to what, in which order, beside what, and what it costs.

`bundles` cuts the tests into bundles by the durations that are kept, `pool` runs them on all cores, `records` reads
what they cost, `subjects` says which tests a change needs, `selection` finds them, `parts` are the tests that run only
where their subject changed, and `flaky` runs some again and again.
"""
