"""Reads the value of one setting, as text or as the types that a TOML file has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from raftsched import quantities
from raftsched.errors import Exit
from raftsched.system.regular_files import open_regular

_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class ConfigError(ValueError):
    """An error in one line for the operator."""

    exit = Exit.ERROR


class Unprotected(ConfigError):
    """The configuration would let strangers in, and does not say that this is meant."""

    exit = Exit.USAGE


class Range(NamedTuple):
    """The bounds of a number, both included, and its default."""

    min: int
    default: int
    max: int


def text_of(name: str, value: Any) -> str:
    """Returns text. Raises ConfigError."""
    if isinstance(value, (str, Path)):
        return str(value)
    raise ConfigError(f'{name} must be text, not {value!r}; write it in quotes, like "..."')


def list_of(name: str, value: Any, separator: str = ",") -> list[str]:
    """Returns the items of a list, or of text with separators: stripped, without empty ones. Raises ConfigError."""
    if isinstance(value, str):
        items = value.split(separator)
    elif isinstance(value, (list, tuple)):
        items = [text_of(name, item) for item in value]
    else:
        raise ConfigError(f"{name} must be text or a list, not {value!r}")
    return [item.strip() for item in items if item.strip()]


def pairs_of(name: str, value: Any, wanted: str) -> list[tuple[str, Any]]:
    """Returns the pairs of a table, or of items `key=value`. `wanted` says how to write one. Raises ConfigError."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    pairs = []
    for item in list_of(name, value):
        key, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"{name} {item!r} has no =; {wanted}")
        pairs.append((key, text))
    return pairs


def flag(name: str, value: Any) -> bool:
    """Returns True or False. Raises ConfigError."""
    text = str(value).strip().lower()
    if text not in _YES | _NO:
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return text in _YES


def file_of(name: str, value: Any) -> Path:
    """Returns the path of a file that can be read. Raises ConfigError."""
    file = Path(text_of(name, value))
    try:
        with open_regular(file) as opened:
            opened.read(1)
    except OSError as error:
        raise ConfigError(f"{name} {file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    return file


def whole_number(settings: Mapping[str, Any], name: str, bounds: Range) -> int:
    """Returns a number within its bounds. Raises ConfigError."""
    value = settings.get(name, bounds.default)
    text = str(value)
    plain = not isinstance(value, bool) and text.isascii() and text.isdigit() and len(text) < 20
    if not plain or not bounds.min <= int(text) <= bounds.max:
        raise ConfigError(f"{name} must be a whole number from {bounds.min} to {bounds.max}, not {value!r}")
    return int(text)


def parse_size(name: str, value: Any) -> int:
    """Returns bytes, of a number or of text with a unit: 64MiB, 1GB. Raises ConfigError."""
    try:
        return quantities.parse_size("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ConfigError(f"{name} {value!r} {error}") from None


def size_of(settings: Mapping[str, Any], name: str, bounds: Range) -> int:
    """Returns bytes within their bounds. Raises ConfigError."""
    value = settings.get(name, bounds.default)
    size = parse_size(name, value)
    if not bounds.min <= size <= bounds.max:
        raise ConfigError(f"{name} must be from {_size_text(bounds.min)} to {_size_text(bounds.max)}, not {value}")
    return size


def _size_text(size: int) -> str:
    """Returns the size in the largest unit that holds it whole."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = max(n for n in range(len(units)) if size % (1 << (10 * n)) == 0)
    return f"{size >> (10 * power)}{units[power]}"


def duration_of(settings: Mapping[str, Any], name: str, bounds: Range) -> int:
    """Returns milliseconds within their bounds, of text with units: 90s, 1h30m. Raises ConfigError."""
    if name not in settings:
        return bounds.default
    text = text_of(name, settings[name])
    try:
        duration = quantities.parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{name} {text[:80]!r} {error}") from None
    if not bounds.min <= duration <= bounds.max:
        within = f"from {quantities.format_duration(bounds.min)} to {quantities.format_duration(bounds.max)}"
        raise ConfigError(f"{name} must be {within}, not {text}")
    return duration
