"""Sets Django up in each process that calls functions: `--python-first raftsched.django.processes`.

DJANGO_SETTINGS_MODULE says which settings; a node passes it on (`--env-pass`), and what else the settings read of the
environment. Both are said by `manage.py raftsched node`.
"""

from __future__ import annotations

import json
import os

import django
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.core.exceptions import ImproperlyConfigured

DATABASES = "RAFTSCHED_DJANGO_DATABASES"  # alias -> name of the database of a test (testing.py)


def set_up() -> None:
    """Sets Django up, once. Raises ImproperlyConfigured, and whatever the settings raise."""
    if not os.environ.get(ENVIRONMENT_VARIABLE):
        raise ImproperlyConfigured(
            f"{ENVIRONMENT_VARIABLE} is not set in the processes of runs: start the node by `manage.py raftsched node`,"
            f" or with --env-pass {ENVIRONMENT_VARIABLE}"
        )
    for alias, name in json.loads(os.environ.get(DATABASES, "{}")).items():
        settings.DATABASES[alias]["NAME"] = name
    django.setup()


set_up()
