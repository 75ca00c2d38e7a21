"""How large anything may be. The numbers are those of the code; the words say of what they are."""

from __future__ import annotations

from types import ModuleType

from raftsched import bounds
from raftsched.api import rows
from raftsched.api.http import problems
from raftsched.config import flags
from raftsched.config.reading import default_of
from raftsched.core import limits
from raftsched.core.subjects import operations
from raftsched.quantities import format_duration
from scripts.website.reference.text import table

_PAGE: tuple[tuple[str, ModuleType, tuple[tuple[str, str], ...]], ...] = (
    (
        "A job",
        limits,
        (
            ("TRIGGER_ID_MAX", "bytes of a trigger's id"),
            ("EXPRESSION_MAX", "characters of a cron expression or recurrence rule"),
            ("AWAITED_NAME_MAX", "bytes of namespace and name of a job that others follow"),
            ("RETRY_LEVELS_MAX", "delays of `retry`"),
            ("GRACE_MAX_MS", "the longest `grace`"),
            ("KEPT_MAX", "runs of one outcome that `retention` keeps"),
            ("HISTORY_MAX", "earlier contents that are kept"),
            ("RUN_MAX", "bytes of handler and params together, as JSON"),
        ),
    ),
    (
        "A job",
        bounds,
        (
            ("LABELS_MAX", "labels"),
            ("LABEL_KEY_MAX", "characters of a label's key"),
            ("LABEL_VALUE_MAX", "characters of a label's value"),
            ("TRIGGERS_MAX", "triggers"),
            ("CONDITIONS_MAX", "conditions"),
            ("CONDITION_MAX", "characters of a path or an address in a condition"),
            ("UPSTREAM_MAX", "jobs that it follows"),
            ("OUTCOMES_MAX", "entries of `outcomes`"),
            ("EVERY_MIN_MS", "the shortest period"),
            ("DURATION_MAX_MS", "the longest duration that can be asked for"),
            ("DESCRIPTION_MAX", "characters of the description"),
            ("OWNER_MAX", "characters of the owner"),
            ("URL_MAX", "characters of an address"),
        ),
    ),
    (
        "A run",
        limits,
        (
            ("RESULT_MAX", "bytes of its result"),
            ("STATE_MAX", "bytes that it keeps for its next attempts"),
            ("SNOOZES_MAX", "times that it may ask to be called again later"),
            ("SNOOZE_MS", "for how long it may ask that"),
            ("RETRY_AFTER_MAX_MS", "for how long a server may ask to wait (`Retry-After`)"),
            ("HANDED_BACK_MAX", "times that it may be handed back before that counts as lost"),
            ("TARGETS_MAX", "nodes and workers that it has a part on"),
        ),
    ),
    (
        "A run",
        bounds,
        (
            ("ERROR_MAX", "characters of an attempt's error"),
            ("PROGRESS_TEXT_MAX", "characters of the text of its progress"),
            ("SHARDS_MAX", "shards"),
        ),
    ),
    ("Queues and namespaces", bounds, (("RATE_COUNT_MAX", "starts in a period of a rate"),)),
    (
        "Queues and namespaces",
        limits,
        (
            ("QUEUE_NAME_MAX", "bytes of a queue's name"),
            ("RATE_PERIOD_MS", "the period of a rate"),
        ),
    ),
    ("Secrets", bounds, (("SECRET_VALUE_MAX", "bytes of a value"),)),
    (
        "Nodes and workers",
        bounds,
        (
            ("SLOTS_MAX", "slots"),
            ("WEIGHT_MAX", "the weight of a slot"),
            ("SERVED_MAX", "queues, and namespaces, that a worker is limited to"),
            ("WORKER_HANDLERS_MAX", "handlers of a worker"),
        ),
    ),
    (
        "Nodes and workers",
        flags,
        (
            ("connections_max", "connections to a node (least, default, most)"),
            ("streams_max", "streams of a node (least, default, most)"),
            ("token_streams_max", "streams of one token at a node (least, default, most)"),
            ("token_processor_ms", "milliseconds of a node's processor a second for one token (least, default, most)"),
        ),
    ),
    ("Actions on many jobs", bounds, (("BULK_IDS_MAX", "ids that one names"),)),
    (
        "Actions on many jobs",
        operations,
        (
            ("RUNNING_MAX", "that are under way at one time"),
            ("KEPT_MAX", "that are kept when they have ended"),
        ),
    ),
    ("Requests", rows, (("SCAN_MAX", "rows that are looked through for one page of a list"),)),
    ("Requests", problems, (("ERRORS_MAX", "errors that one answer names"),)),
)


def page() -> str:
    """Returns the page."""
    by_title: dict[str, list[tuple[str, str]]] = {}
    for title, module, named in _PAGE:
        by_title.setdefault(title, []).extend((words, _shown(module, name)) for name, words in named)
    parts = [
        "# Limits\n\nWhat is larger is refused, and the refusal names the bound. Others can be changed: they are"
        " [settings of the cluster](../settings.md) or [of a node](settings-node.md), limits of"
        " [namespaces](../namespaces.md#limits) and of [queues](../queues.md).\n\n"
    ]
    parts += [f"## {title}\n\n" + table(("", "at most"), found) for title, found in by_title.items()]
    return "".join(parts)


def _shown(module: ModuleType, name: str) -> str:
    if module is flags:
        least, most = flags.FLAGS[name].bounds
        value: object = (least, default_of(name), most)
    else:
        value = getattr(module, name)
    numbers = value if isinstance(value, tuple) else (value,)
    texts = [format_duration(number) if name.upper().endswith("_MS") else f"{number:,}" for number in numbers]
    if name == "EVERY_MIN_MS":
        return f"{texts[0]} at least"
    return " to ".join(texts) if len(texts) < 3 else ", ".join(texts)
