"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no failure; and a failure says how to see it again.
settings.register_profile("raftsched", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("raftsched")
