"""Puts and deletes secrets, and counts the references of jobs to them."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.core.apply.resources.namespace_edits import known
from raftsched.core.apply.resources.users import jobs_with_tag, refusal_by_users
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import is_stale, put_refused, stale_revision
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import Job, JobState
from raftsched.core.rows import encode_row
from raftsched.core.rules.references import find_secret, missing, references
from raftsched.core.rules.selection import secret_tag
from raftsched.core.subjects.namespace import Namespace, namespace_error
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.subjects.secret import SEALED_MAX, DeleteSecret, PutSecret, Secret, secret_name_error
from raftsched.core.tables import Table, name_key

_NONCE_MAX = 32
_DIGEST_MAX = 64


def put_secret(tx: Tx, c: PutSecret) -> Answer:
    wrong = namespace_error(c.namespace) or secret_name_error(c.namespace, c.name)
    if wrong is None and c.namespace == SYSTEM_NAMESPACE:
        wrong = f"the namespace {SYSTEM_NAMESPACE} is the cluster's own; take another."
    if wrong is None and len(c.value) > (SEALED_MAX if c.nonce else SECRET_VALUE_MAX):
        wrong = f"a secret takes at most {SECRET_VALUE_MAX} bytes."
    if wrong is None and (len(c.nonce) > _NONCE_MAX or len(c.digest) > _DIGEST_MAX):
        wrong = "a nonce or a digest is longer than any."
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    secret = find_secret(tx.view, c.namespace, c.name)
    exists = f"The secret {c.namespace}/{c.name} exists already."
    absent = "The secret does not exist; leave out the condition to create it."
    refused = put_refused(c, secret, "The secret", exists, absent)
    if refused is not None:
        return refused
    created = secret is None
    if secret is None:
        refused = known(tx, c.namespace)
        if refused is not None:
            return refused
        limit = tx.meta.settings.secrets_max
        if tx.meta.secrets >= limit:
            return Rejected("not-possible", f"There are {tx.meta.secrets} secrets; {limit} is the limit.")
        secret = Secret(namespace=c.namespace, name=c.name, revision=0, value=b"", created_at_ms=tx.now)
        tx.meta.secrets += 1
        _count(tx, c.namespace, 1)
    shared = secret.shared if c.shared is None else c.shared
    unchanged = not created and _same(secret, c) and shared == secret.shared
    if not unchanged:
        secret.value, secret.nonce, secret.digest, secret.shared = c.value, c.nonce, c.digest, shared
        secret.revision = tx.new_revision()
        secret.modified_at_ms = tx.now
        tx.view.put(Table.SECRETS, name_key(c.namespace, c.name), encode_row(secret))
    return Accepted(created=created, unchanged=unchanged)


def _same(secret: Secret, c: PutSecret) -> bool:
    """Returns whether the value is the present one. Sealed values differ each time, and are compared by their
    digests."""
    if c.nonce and secret.nonce:
        return bool(c.digest) and secret.digest == c.digest
    return not c.nonce and not secret.nonce and secret.value == c.value


def delete_secret(tx: Tx, c: DeleteSecret) -> Answer:
    secret = find_secret(tx.view, c.namespace, c.name)
    if secret is None:
        return Rejected("not-found", f"There is no secret {c.namespace[:64]}/{c.name[:128]}.")
    if is_stale(c.if_revision, secret):
        return stale_revision("The secret", secret)
    detail = f"Jobs refer to the secret {c.namespace}/{c.name}. Change them, or force it: then their runs fail."
    refused = None if c.force else refusal_by_users("in-use", detail, _users(tx, secret))
    if refused is not None:
        return refused
    tx.view.delete(Table.SECRETS, name_key(c.namespace, c.name))
    tx.meta.secrets -= 1
    _count(tx, c.namespace, -1)
    return Accepted()


def _users(tx: Tx, secret: Secret) -> Iterator[Job]:
    for job in jobs_with_tag(tx, secret_tag(secret.namespace, secret.name)):
        if job.state is not JobState.DELETED and _refers(job, secret):
            yield job


def _refers(job: Job, secret: Secret) -> bool:
    return any((r.namespace, r.name) == (secret.namespace, secret.name) for r in references(job.namespace, job.body))


def _count(tx: Tx, name: str, more: int) -> None:
    namespace = tx.namespace(name) or Namespace(name=name)
    namespace.secrets = max(0, namespace.secrets + more)
    tx.put_namespace(namespace)


def check_references(tx: Tx, namespace: str, body: bytes) -> Rejected | None:
    """Refuses a job that refers to a secret that does not exist."""
    for reference, why in missing(tx.view, namespace, references(namespace, body)):
        return Rejected("invalid-job", why, reference.pointer, meaning="unknown-reference")
    return None
