"""Every field of a job: what it is for, its type with its bounds, and its default."""

from __future__ import annotations

import json
from typing import Any

from raftsched.api.jobs.fields import FIELDS
from scripts.website.reference.api import DOCUMENT, type_tables, word
from scripts.website.reference.text import code, plain, table


def page() -> str:
    """Returns the page."""
    properties: dict[str, Any] = DOCUMENT["components"]["schemas"]["JobIn"]["properties"]
    rows = []
    for field in FIELDS:
        default = field.default_text or ("" if field.default is None else code(json.dumps(field.default)))
        inherited = "yes" if field.inherited else ""
        kind = word(properties[field.name], "reference/job.md")
        rows.append((f"`{field.name}`", plain(field.about), kind, default, inherited))
    about = (
        "# Every field of a job\n\nA job is JSON for the API, YAML or JSON in files, and has options of"
        " `raftsched jobs create`"
        " on the command line. Besides these fields it has a `name` and a `namespace`, and `suspended` where it"
        " is made to wait."
        " What is inherited may be a default of its [namespace](../namespaces.md#defaults).\n\n"
    )
    parts = [about, table(("field", "", "type", "default", "inherited"), rows), "## Types of these fields\n\n"]
    return "".join([*parts, *type_tables("reference/job.md")])
