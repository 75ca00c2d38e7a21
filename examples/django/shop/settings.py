"""The settings of the shop. SHOP_DATA says where its database and the node's directory are."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("SHOP_DATA", BASE_DIR / "data"))
DATA.mkdir(parents=True, exist_ok=True)

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only for this example")  # nosec B105
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "raftsched.django",
    "billing",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA / "shop.sqlite3",
        "OPTIONS": {"timeout": 20},  # seconds that a writer waits for others
        "TEST": {"NAME": DATA / "test.sqlite3"},  # runs are other processes: not in memory
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

RAFTSCHED = {
    "namespace": "shop",
    "environment": ["SHOP_DATA", "SHOP_SECRET_KEY"],  # what these settings read
    "node": {"id": "n1", "data": DATA / "n1"},
}
