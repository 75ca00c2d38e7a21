"""The example's settings, with a second database."""

from shop.settings import *  # noqa: F403
from shop.settings import DATA, DATABASES
from shop.settings import INSTALLED_APPS as OF_THE_SHOP

DATABASES["ledger"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "ledger.sqlite3"}
INSTALLED_APPS = [*OF_THE_SHOP, "tests.integration.django.ledger"]
