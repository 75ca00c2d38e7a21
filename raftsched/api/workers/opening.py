"""The rules that the types of a worker's opening cannot express."""

from __future__ import annotations

from raftsched import names
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.bounds import BOOT_ID_MAX, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, SERVED_MAX
from raftsched.core.rules.allowed import rules_error
from raftsched.handlers import KINDS
from raftsched.remote.rules import allowed_of
from raftsched.surface.worker_sessions import CALL, WorkerSessionIn


def check_opening(worker: WorkerSessionIn) -> None:
    """Raises Problem invalid-body with all that is wrong with the names."""
    errors: list[FieldError] = []
    if not names.WORKER.allows(worker.name):
        errors.append(FieldError("/name", f"must have {names.WORKER.rule}"))
    for field, rule, given in (
        ("queues", names.QUEUE, worker.queues),
        ("namespaces", names.NAMESPACE, worker.namespaces),
    ):
        if given is not None and not given:
            errors.append(FieldError(f"/{field}", f"must be 1 to {SERVED_MAX}, or left out for all"))
        for place, name in enumerate(given or ()):
            if not rule.allows(name):
                errors.append(FieldError(pointer(field, place), f"must have {rule.rule}"))
    if not worker.handlers:
        errors.append(FieldError("/handlers", f'must name at least one of {", ".join(KINDS)}, or "call:" and a name'))
    for place, name in enumerate(worker.handlers):
        if name not in KINDS and not (name.startswith(CALL) and names.HANDLER.allows(name[len(CALL) :])):
            wanted = f'must be one of {", ".join(KINDS)}, or "call:" and a name of {names.HANDLER.rule}'
            errors.append(FieldError(pointer("handlers", place), wanted))
    errors += _wrong_labels(worker.labels)
    if len(worker.incarnation.encode()) > BOOT_ID_MAX:
        errors.append(FieldError("/incarnation", f"is too long; at most {BOOT_ID_MAX} bytes", "out-of-range"))
    for place, user in enumerate(worker.users):
        namespace, colon, name = user.partition(":")
        if not colon or not names.NAMESPACE.allows(namespace) or (name and not names.USER.allows(name)):
            errors.append(FieldError(pointer("users", place), 'must be a namespace or "default", a colon, and a user'))
    wrong = None if worker.allowed is None else rules_error(allowed_of(worker.allowed))
    if wrong is not None:
        errors.append(FieldError("/allowed", wrong.removesuffix("."), "invalid-text"))
    if errors:
        raise Problem("invalid-body", errors=errors)


def _wrong_labels(labels: dict[str, str]) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        at = pointer("labels", key[:32])
        if not 1 <= len(key) <= LABEL_KEY_MAX:
            errors.append(FieldError(at, f"needs a key of 1 to {LABEL_KEY_MAX} characters"))
        if len(value) > LABEL_VALUE_MAX:
            errors.append(FieldError(at, f"is too long; at most {LABEL_VALUE_MAX} characters"))
    if len(labels) > LABELS_MAX:
        errors.append(FieldError("/labels", f"has {len(labels)}; at most {LABELS_MAX} are allowed"))
    return errors
