"""The app: what is said of the cluster comes from the settings from here on."""

from __future__ import annotations

from types import ModuleType

from django.apps import AppConfig

from raftsched.client import program
from raftsched.django import conf


class RaftschedConfig(AppConfig):
    name = "raftsched.django"
    label = "raftsched"
    verbose_name = "raftsched"
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: ModuleType) -> None:
        super().__init__(app_name, app_module)
        program.source = conf.said  # before any module of any app is imported: they may declare jobs

    def ready(self) -> None:
        from raftsched.django import checks  # noqa: F401  # it registers them
