"""Fields of a job as options say them: a retry in one word, and any field by its path."""

from __future__ import annotations

import json
from typing import Any

import click

_RULE = ("first", "factor", "max", "attempts")  # of an exponential retry
_NUMBERS = {"factor": float, "attempts": int, "jitter": int}


def exactly_one(what: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the one option that was used. Raises a usage error that asks for `what` and names the choices."""
    used = {name: value for name, value in given.items() if value not in (None, False, ())}
    if len(used) != 1:
        choices = ", ".join(f"--{name}" for name in given)
        problem = f"{' and '.join(f'--{n}' for n in used)} exclude each other. " if used else ""
        raise click.UsageError(f"{problem}Say {what}: one of {choices}")
    return used


def retry_of(text: str) -> dict[str, Any]:
    """`5s,10s,1m`, or `exponential` with `first=1s,factor=2,max=1h,attempts=5`; both with `jitter=20` (percent) and
    `on=failed` (twice for both). Raises a usage error."""
    retry: dict[str, Any] = {}
    delays: list[str] = []
    rule: dict[str, Any] = {}
    on: list[str] = []
    words = [word.strip() for word in text.split(",")]
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            if word != "exponential":
                delays.append(word)
            continue
        if name in _NUMBERS:
            value = _number(name, value)
        if name == "jitter":
            retry["jitter_percent"] = value
        elif name == "on":
            on.append(value)
        elif name in _RULE:
            rule[name] = value
        else:
            known = ", ".join(f"{known}=" for known in (*_RULE, "jitter", "on"))
            raise click.UsageError(f"--retry: {word!r} is not known; there are delays, 'exponential', {known}")
    exponential = "exponential" in words
    if exponential and delays:
        raise click.UsageError(f"--retry: 'exponential' and the delays {', '.join(delays)} exclude each other")
    if rule and not exponential:
        raise click.UsageError(f"--retry: {', '.join(f'{n}=' for n in rule)} are of 'exponential'; write it first")
    if exponential:
        retry["exponential"] = rule
    else:
        retry["delays"] = delays
    if on:
        retry["on"] = on
    return retry


def _number(name: str, text: str) -> Any:
    try:
        return _NUMBERS[name](text.removesuffix("%") if name == "jitter" else text)
    except ValueError:
        raise click.UsageError(f"--retry: {name}={text} is not a number") from None


def set_field(job: dict[str, Any], setting: str) -> None:
    """`misfire.policy=all`, `retention={"succeeded": 5}`: JSON, else text; null takes a field out. Raises a usage
    error."""
    path, equals, text = setting.partition("=")
    names = path.split(".")
    if not equals or not all(names):
        raise click.UsageError(f"--set {setting!r} is not a field; write --set PATH=VALUE, such as misfire.policy=all")
    place: Any = job
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise click.UsageError(f"--set {setting!r}: {name} is not an object, but {json.dumps(place)}")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if value is None:
        place.pop(names[-1], None)
    else:
        place[names[-1]] = value
