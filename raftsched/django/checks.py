"""Checks of Django's framework: of the setting at each start, of the cluster with `check --deploy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks

from raftsched.django import conf

TAG = "raftsched"
NUMBERS = {"": 1, "token": 3, "client_key": 3}  # of a wrong key or value: 2  # nosec B105


@checks.register(TAG)
def settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Returns what is wrong with the setting RAFTSCHED."""
    return [
        checks.Error(f"{conf.NAME}: {wrong.text}.", hint=wrong.hint, id=f"raftsched.E00{NUMBERS.get(wrong.key, 2)}")
        for wrong in conf.problems()
    ]


@checks.register(TAG, deploy=True)
def cluster(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Returns a warning where the cluster takes no jobs from this process."""
    if conf.problems():
        return []
    from raftsched.django import views

    why = views.trouble()
    if why is None:
        return []
    hint = "Start nodes (manage.py raftsched node), or correct server and token."
    return [checks.Warning(f"{conf.NAME}: the cluster takes no jobs now: {why}", hint=hint, id="raftsched.W001")]
