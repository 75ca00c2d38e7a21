"""Makes jobs of CronJobs of Kubernetes (batch/v1), as in manifests or from `kubectl get cronjobs -o yaml`.

A CronJob starts containers; a job here starts a process on a node. What the container brings along (its image, volumes,
secrets) has to be on the nodes, so it is named in notes, and a job that would not run without it comes in suspended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from raftsched import names as rules
from raftsched.bounds import SHARDS_MAX
from raftsched.importers.documents import Document
from raftsched.importers.foreign import (
    Entry,
    Names,
    Notes,
    Reading,
    Unmapped,
    cron_trigger,
    job_name,
    text_map,
    whole,
)

_OVERLAP = {"Allow": "allow", "Forbid": "forbid", "Replace": "replace"}
_METADATA = frozenset(
    ["name", "namespace", "labels", "annotations", "uid", "resourceVersion", "generation", "creationTimestamp",
     "managedFields", "selfLink"]
)  # fmt: skip
_OBJECT = frozenset(["apiVersion", "kind", "metadata", "spec", "status"])
_SPEC = frozenset(
    ["schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend", "successfulJobsHistoryLimit",
     "failedJobsHistoryLimit", "jobTemplate"]
)  # fmt: skip
_JOB = frozenset(
    ["backoffLimit", "activeDeadlineSeconds", "completions", "parallelism", "completionMode", "ttlSecondsAfterFinished",
     "podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "suspend", "template"]
)  # fmt: skip
_JOB_DEFAULTS: Mapping[str, Any] = {"podReplacementPolicy": "TerminatingOrFailed"}
_POD = frozenset(
    ["containers", "initContainers", "restartPolicy", "nodeSelector", "volumes", "activeDeadlineSeconds",
     "terminationGracePeriodSeconds", "serviceAccountName", "serviceAccount", "securityContext"]
)  # fmt: skip
_POD_DEFAULTS: Mapping[str, Any] = {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
_POD_GRACE_S = 30  # what Kubernetes gives unless it is told otherwise
GRACE_MAX_S = 3600
_INDEX = "JOB_COMPLETION_INDEX"  # how Kubernetes tells a pod which one it is
_CONTAINER = frozenset(
    ["name", "image", "command", "args", "env", "envFrom", "workingDir", "resources", "volumeMounts", "securityContext"]
)
_CONTAINER_DEFAULTS: Mapping[str, Any] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_IRRELEVANT = ("imagePullPolicy",)  # about fetching images, which are not used
_SOURCES = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef", "secretRef", "configMapRef")
_OF_SOURCE = ("name", "key", "fieldPath", "resource", "apiVersion", "containerName", "divisor")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)", re.ASCII)
# A quantity of Kubernetes: a number, also with a fraction, and a suffix, decimal, binary or an exponent.
_QUANTITY = re.compile(
    r"\+?([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})", re.ASCII
)
_SUFFIXES = {"": Fraction(1), **{one: Fraction(1000) ** n for n, one in enumerate("num kMGTPE", -3) if one != " "},
             **{f"{one}i": Fraction(1024) ** n for n, one in enumerate("KMGTPE", 1)}}  # fmt: skip
_SIZES = {f"{one}B": 1024**n if one.endswith("i") else 1000**n
          for n in (4, 3, 2, 1) for one in (f"{' KMGT'[n]}i", " kMGT"[n])}  # fmt: skip
BACKOFF_LIMIT = 6  # what Kubernetes does unless it is told otherwise
RETRIES_MAX = 100


def read_cronjobs(documents: list[Document], *, timezone: str, prefix: str) -> Reading:
    """`timezone`: of CronJobs that name none, which Kubernetes runs in that of its control plane."""
    reading = Reading()
    names = Names()
    for document in documents:
        given = document.value
        metadata = given.get("metadata") if isinstance(given.get("metadata"), dict) else {}
        assert isinstance(metadata, dict)
        text = str(metadata.get("name") or "")
        kind = str(given.get("kind") or "")
        place = f"{kind or 'object'} {text}" if text else document.place
        if kind != "CronJob":
            if kind in ("Job", ""):
                reason = "it is no CronJob" if kind else "it has no kind; a CronJob says kind: CronJob"
                reading.refused.append((place, text, reason))
            else:
                reading.notes.append((place, "it is no CronJob; it is left out"))
            continue
        notes = Notes()
        try:
            if not text:
                raise Unmapped("it has no metadata.name")
            name = job_name(text, prefix, notes)
            namespace = str(metadata["namespace"]) if metadata.get("namespace") else None
            names.take(name, place, namespace)
            job = _job(given, metadata, timezone, notes)
        except Unmapped as error:
            reading.refused.append((place, text, str(error)))
            continue
        reading.add(Entry(place, text, name, namespace, job), notes)
    return reading


def _job(given: Mapping[str, Any], metadata: Mapping[str, Any], zone: str, notes: Notes) -> dict[str, Any]:
    spec = _object(given, "spec")
    template = _object(_object(spec, "jobTemplate", "spec."), "spec", "spec.jobTemplate.")
    pod = _object(_object(template, "template", "job "), "spec", "pod ")
    namespace = str(metadata.get("namespace") or "")
    job: dict[str, Any] = {"trigger": _trigger(spec, zone, notes), "handler": _handler(pod, namespace, notes)}
    policy = str(spec.get("concurrencyPolicy") or "Allow")
    if policy not in _OVERLAP:
        raise Unmapped(f"its concurrencyPolicy is {policy!r}; {', '.join(_OVERLAP)} are known")
    job["overlap"] = _OVERLAP[policy]
    if spec.get("suspend") is True:
        job["suspended"] = True
    if template.get("suspend") is True:
        notes.lack("its runs begin suspended (jobTemplate.spec.suspend), which no run does here")
    deadline = whole(spec.get("startingDeadlineSeconds"), "startingDeadlineSeconds")
    if deadline is not None:
        job["misfire"] = {"policy": "skip", "grace": f"{deadline}s"}
    kept = {
        ours: whole(spec.get(theirs), theirs)
        for ours, theirs in (("succeeded", "successfulJobsHistoryLimit"), ("failed", "failedJobsHistoryLimit"))
    }
    if any(count is not None for count in kept.values()):
        job["retention"] = {name: count for name, count in kept.items() if count is not None}
    job |= _attempts(template, pod, notes)
    age = whole(template.get("ttlSecondsAfterFinished"), "ttlSecondsAfterFinished")
    if age is not None:
        job["retention"] = {**job.get("retention", {}), "max_age": f"{max(age, 1)}s"}
    shards = _shards(template, job["handler"], notes)
    labels = text_map(metadata.get("labels"), "metadata.labels")
    if labels:
        job["labels"] = labels
    nodes = text_map(pod.get("nodeSelector"), "nodeSelector")
    if nodes:
        words = " ".join(f"{k}={v}" for k, v in nodes.items())
        notes.say(f"nodeSelector became labels that a node needs: raftsched nodes label NODE {words}")
        job["placement"] = {"labels": nodes}
    if shards:
        job["placement"] = {**job.get("placement", {}), "shards": shards}
    _said(template, pod, notes)
    annotations = [key for key in text_map(metadata.get("annotations"), "annotations") if key != _APPLIED]
    for key in annotations:
        notes.say(f"annotation {key} has no counterpart here; it is left out")
    notes.leave(given, _OBJECT, "")
    notes.leave(metadata, _METADATA, "metadata.")
    notes.leave(spec, _SPEC, "spec.")
    _leave_template(spec["jobTemplate"], "spec.jobTemplate.", notes)
    notes.leave(_but(template, _JOB_DEFAULTS), _JOB, "spec.jobTemplate.spec.")
    _leave_template(template["template"], "spec.jobTemplate.spec.template.", notes)
    notes.leave(_but(pod, _POD_DEFAULTS), _POD | set(_IRRELEVANT), "pod ")
    return job


def _leave_template(given: Mapping[str, Any], at: str, notes: Notes) -> None:
    """Names what a template says of its runs or pods beside their spec."""
    notes.leave(given, ("metadata", "spec"), at)
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Unmapped(f"{at}metadata is no object")
    for field in ("labels", "annotations"):
        notes.leave(text_map(metadata.get(field), f"{at}metadata.{field}"), (), f"{at}metadata.{field} ")
    notes.leave(_but(metadata, {"creationTimestamp": None}), ("labels", "annotations"), f"{at}metadata.")


def _object(parent: Mapping[str, Any], key: str, at: str = "") -> dict[str, Any]:
    found = parent.get(key)
    if not isinstance(found, dict):
        raise Unmapped(f"{at}{key} is missing or no object")
    return found


def _but(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object without what Kubernetes itself fills in."""
    return {k: v for k, v in given.items() if k not in defaults or v != defaults[k]}


def _trigger(spec: Mapping[str, Any], zone: str, notes: Notes) -> dict[str, Any]:
    text = str(spec.get("schedule") or "")
    if not text.strip():
        raise Unmapped("it has no schedule")
    own = str(spec.get("timeZone") or "")
    trigger = cron_trigger(text, own or zone, seconds=False, notes=notes)
    if own and ("timezone" not in trigger or "TZ=" in text):
        notes.say(f"timeZone {own} is left out: the schedule names its own, or does not depend on it")
    if "timezone" in trigger and not own and "TZ=" not in text:
        notes.say(f"it names no timeZone: Kubernetes takes its control plane's, here it is {zone} (--timezone)")
    return trigger


def _shards(template: Mapping[str, Any], handler: dict[str, Any], notes: Notes) -> int:
    """The parts of a run; 0: it has none. Kubernetes' pods are told their index as a variable of another name."""
    completions, parallelism = (whole(template.get(field), field) for field in ("completions", "parallelism"))
    mode = str(template.get("completionMode") or "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        raise Unmapped(f"its completionMode is {mode[:40]!r}; NonIndexed and Indexed are known")
    if parallelism == 0:
        notes.lack("its parallelism is 0, so that nothing ran")
    count = completions if completions is not None else (parallelism or 1)
    if mode == "Indexed" and completions is None:
        raise Unmapped("it is Indexed and says no completions")
    if count <= 1 and mode != "Indexed":
        return 0
    if not 1 <= count <= SHARDS_MAX:
        raise Unmapped(f"it has {count} completions; a run has 1 to {SHARDS_MAX:,} parts here")
    if completions is None:
        notes.say(f"its {count} pods that share a queue became {count} shards; all of them have to succeed")
    elif parallelism is not None and parallelism < count:
        notes.say(
            f"parallelism {parallelism} is left out: all {count} shards of a run may run at one time (see queues)"
        )
    if mode == "Indexed":
        words = " ".join(_with_index(word) for word in handler.pop("exec"))
        handler["shell"] = f'export {_INDEX}="$RAFTSCHED_SHARD_INDEX"; exec {words}'
    return count


def _with_index(word: str) -> str:
    """A word for sh, with the variable in place of the reference to it."""
    parts = word.split(f"$({_INDEX})")
    if len(parts) == 1:
        return shlex.quote(word)
    return f'"${{{_INDEX}}}"'.join(shlex.quote(part) if part else "" for part in parts)


def _said(template: Mapping[str, Any], pod: Mapping[str, Any], notes: Notes) -> None:
    """Notes fields whose meaning needs words."""
    rules_of = template.get("podFailurePolicy")
    if isinstance(rules_of, dict) and rules_of.get("rules"):
        notes.ask("podFailurePolicy is left out: each attempt that fails is retried, whatever its exit code")
    for field, what in (
        ("successPolicy", "all shards of a run have to succeed"),
        ("backoffLimitPerIndex", "each shard is retried as retry says"),
        ("maxFailedIndexes", "a run goes on with its other shards when one has failed"),
    ):
        if template.get(field) is not None:
            notes.say(f"{field} is left out: {what}")
    account = pod.get("serviceAccountName") or pod.get("serviceAccount")
    if account and account != "default":
        notes.ask(f"serviceAccountName {account} is left out: its token and its rights are not here")
    containers = pod.get("containers")
    for given in (pod, *(containers if isinstance(containers, list) else [])):
        context = given.get("securityContext") if isinstance(given, dict) else None
        if context:
            names = ", ".join(context) if isinstance(context, dict) else str(context)
            notes.say(f"securityContext ({names[:100]}) is left out; user says as whom a job runs")


def _attempts(template: Mapping[str, Any], pod: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    limit = whole(template.get("backoffLimit"), "backoffLimit")
    retries = BACKOFF_LIMIT if limit is None else limit
    if retries > RETRIES_MAX:
        notes.say(f"it is retried {RETRIES_MAX} times, not {retries}")
    if retries:
        rule = {"first": "10s", "factor": 2, "max": "6m", "attempts": min(retries, RETRIES_MAX)}
        found["retry"] = {"exponential": rule}
    deadlines = [whole(given.get("activeDeadlineSeconds"), "activeDeadlineSeconds") for given in (template, pod)]
    deadline = min((value for value in deadlines if value), default=None)
    if deadline:
        found["timeout"] = f"{deadline}s"
        if retries:
            notes.say("activeDeadlineSeconds became the timeout of each attempt, not of all together")
    grace = whole(pod.get("terminationGracePeriodSeconds"), "terminationGracePeriodSeconds")
    if grace is not None and grace != _POD_GRACE_S:
        found["grace"] = f"{min(grace, GRACE_MAX_S)}s"
        if grace > GRACE_MAX_S:
            notes.say(f"terminationGracePeriodSeconds {grace} is an hour here, the longest grace")
    return found


def _handler(pod: Mapping[str, Any], namespace: str, notes: Notes) -> dict[str, Any]:
    containers = pod.get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers) or not containers:
        raise Unmapped("its pod has no containers")
    if len(containers) > 1:
        raise Unmapped(f"its pod has {len(containers)} containers; a job here is one process, write several jobs")
    if pod.get("initContainers"):
        raise Unmapped("its pod has initContainers; make them part of the command, or a job that this one waits for")
    container = containers[0]
    command = _words(container, "command")
    if not command:
        raise Unmapped(
            f"it runs what its image {container.get('image')!r} starts by itself; say it as command, for nothing here"
            " looks into images"
        )
    env = _env(container, namespace, notes)
    plain = {name: value for name, value in env.items() if isinstance(value, str)}
    handler: dict[str, Any] = {"exec": [_expand(word, plain) for word in command + _words(container, "args")]}
    for word in command + _words(container, "args"):
        for found in _REFERENCE.finditer(word):
            if found[1] in env and found[1] not in plain:
                notes.lack(f"its command is given $({found[1]}), a secret, which is only a variable here")
    if env:
        handler["env"] = env
    if container.get("workingDir"):
        handler["cwd"] = str(container["workingDir"])
    memory = _resources(container, notes)
    if memory:
        handler["limits"] = {"memory": memory}
    image = f"image {container['image']} is not used: " if container.get("image") else ""
    notes.say(f"{image}{handler['exec'][0]} has to be on the nodes")
    if container.get("volumeMounts"):
        mounts = _list(container, "volumeMounts")
        places = ", ".join(str(v.get("mountPath")) for v in mounts if isinstance(v, dict))
        notes.lack(f"volumes are not mounted (volumeMounts): {places} has to be on the nodes")
    elif pod.get("volumes"):
        notes.say("volumes of the pod are left out; no container mounts them")
    notes.leave(_but(container, _CONTAINER_DEFAULTS), _CONTAINER | set(_IRRELEVANT), "container ")
    return handler


def _words(container: Mapping[str, Any], key: str) -> list[str]:
    return [str(word) for word in _list(container, key)]


def _list(container: Mapping[str, Any], key: str) -> list[Any]:
    found = container.get(key) or []
    if not isinstance(found, list):
        raise Unmapped(f"its {key} is not a list")
    return found


def _env(container: Mapping[str, Any], namespace: str, notes: Notes) -> dict[str, Any]:
    """Values are texts, or references to secrets."""
    env: dict[str, Any] = {}
    for item in _list(container, "env"):
        if not isinstance(item, dict) or not item.get("name"):
            raise Unmapped("its env has an item without a name")
        name = str(item["name"])
        notes.leave(item, ("name", "value", "valueFrom"), f"env {name} ")
        if item.get("valueFrom"):
            kind, key, source = _source(item["valueFrom"], f"env {name} ", notes)
            if kind == "fieldRef" and key == "metadata.namespace" and namespace:
                env[name] = namespace
                continue
            secret = _secret(item["valueFrom"], key) if kind == "secretKeyRef" else None
            if secret is not None:
                env[name] = {"$secret": secret}
                put = f"secrets set {namespace or 'default'}/{secret}"
                notes.ask(f"env {name} is the secret {secret} here, which has to be there before the import: {put}")
                continue
            notes.lack(f"env {name} comes from a {kind}{source}, which is not here: give the value with jobs edit")
        else:
            value = item.get("value")
            known = {other: text for other, text in env.items() if isinstance(text, str)}
            env[name] = _expand("" if value is None else str(value), known)
    for item in _list(container, "envFrom"):
        kind, _, source = _source(item, "envFrom ", notes)
        notes.lack(f"envFrom: the variables of a {kind}{source} are not here: give them with jobs edit")
    return env


def _secret(item: Mapping[str, Any], key: str) -> str | None:
    """The secret here for a key of one there: each has one value. None: it has no name that is possible."""
    name = f"{item['secretKeyRef'].get('name') or ''}.{key}".lower()
    return name if key and not name.startswith(".") and rules.SECRET.allows(name) else None


def _source(item: Any, at: str, notes: Notes) -> tuple[str, str, str]:
    """(kind, key, " name/key" for messages) of a reference to a secret, a config map or a field."""
    if not isinstance(item, dict) or not item:
        return "reference", "", ""
    kind, value = next(((k, v) for k, v in item.items() if k in _SOURCES and isinstance(v, dict)), ("reference", {}))
    notes.leave(item, (kind,), at)
    notes.leave(value, _OF_SOURCE, f"{at}{kind}.")
    key = str(value.get("key") or value.get("fieldPath") or value.get("resource") or "")
    name = str(value.get("name") or "")
    return kind, key, f" {'/'.join(filter(None, (name, key)))}" if name or key else ""


def _expand(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) stands for a variable that was set before, $$ for a dollar; what is not known stays as it is."""

    def replace(found: re.Match[str]) -> str:
        return "$" if found[1] is None else env.get(found[1], found[0])

    return _REFERENCE.sub(replace, text)


def _resources(container: Mapping[str, Any], notes: Notes) -> str | None:
    resources = container.get("resources") or {}
    limits = (resources.get("limits") or {}) if isinstance(resources, dict) else None
    if not isinstance(limits, dict):
        raise Unmapped("its resources or their limits are no object")
    notes.leave(resources, ("limits", "requests"), "resources.")
    for key, value in limits.items():
        if key != "memory":
            notes.say(f"resources.limits.{key}: {value} has no counterpart here; it is left out")
    if isinstance(resources, dict) and resources.get("requests"):
        notes.say("resources.requests has no counterpart here: a node's slots say how much it takes")
    memory = limits.get("memory")
    if memory is None:
        return None
    size = memory_size(str(memory))
    if size is None:
        notes.say(f"resources.limits.memory: {memory} is no quantity of Kubernetes; it is left out")
    return size


def memory_size(quantity: str) -> str | None:
    """The size in bytes that a quantity of Kubernetes stands for, rounded up, in the largest unit that needs no
    fraction; None: it is no quantity."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        return None
    number, suffix = Fraction(found[1].rstrip(".")), found[2]
    unit = _SUFFIXES.get(suffix)
    size = -int(-number * (Fraction(10) ** int(suffix[1:]) if unit is None else unit) // 1)
    for name, unit_size in _SIZES.items():
        if size and size % unit_size == 0:
            return f"{size // unit_size}{name}"
    return str(size)
