"""Finds the modules with handlers and jobs: those of RAFTSCHED["handlers"], else `tasks` of each installed app."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from raftsched.django import conf

OF_APPS = "tasks"
NONE = (
    f"no module has a handler: put functions with @handler of raftsched.django into {OF_APPS}.py of an app in"
    ' INSTALLED_APPS, or name modules in RAFTSCHED["handlers"]'
)


def found() -> list[str]:
    """Returns their names, in the order of INSTALLED_APPS. Nothing is imported."""
    named = conf.given().get("handlers")
    if named is not None:
        return list(dict.fromkeys(named))
    return [
        f"{app.name}.{OF_APPS}"
        for app in apps.get_app_configs()
        if app.name != "raftsched.django" and app.module is not None and module_has_submodule(app.module, OF_APPS)
    ]


def import_all() -> list[str]:
    """Imports them, and returns their names. Raises whatever a module raises."""
    names = found()
    for name in names:
        import_module(name)
    return names
