"""Steps: what happened to an instance, kept in its row for those who ask why it ran, or did not."""

from __future__ import annotations

from raftsched.core.apply.tx import Tx
from raftsched.core.model import Instance, Step, StepKind


def add_step(tx: Tx, instance: Instance, kind: StepKind, detail: str | None = None, token: int = 0) -> None:
    """Adds a step. When there are too many the oldest but the first go."""
    steps = instance.steps
    steps.append(Step(kind, tx.index, tx.term, tx.now - instance.created_at_ms, detail, token))
    surplus = len(steps) - tx.meta.settings.steps_kept
    if surplus > 0:
        del steps[1 : 1 + surplus]
