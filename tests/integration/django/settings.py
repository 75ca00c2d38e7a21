"""The example's settings, with a second database."""

from shop.settings import *  # noqa: F403
from shop.settings import DATA, DATABASES

DATABASES["ledger"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "ledger.sqlite3"}
INSTALLED_APPS = [*INSTALLED_APPS, "tests.integration.django.ledger"]  # noqa: F405
