"""A step of the image's build: imports every module of raftsched, which keeps its byte code and that of all it needs.

A module that lacks something ends the build, unless it belongs to an extra that the image was built without.
"""

import importlib
import pkgutil

import raftsched

# Packages that modules import at their top; docs/installing.md lists the extras.
OF_EXTRAS = {"mcp", "minio", "opentelemetry"}
FOR_TESTS = ("raftsched.testing", "raftsched.__main__")  # the last one is a program

for module in pkgutil.walk_packages(raftsched.__path__, "raftsched."):
    if module.name.startswith(FOR_TESTS):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in OF_EXTRAS:
            raise
