"""Reads the value of one setting, as text or as the types that a TOML file has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def switch_of(name: str, value: Any) -> bool:
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


def number_of(name: str, value: Any, bounds: tuple[int, int]) -> int:
    """Returns a whole number within its bounds. Raises ConfigError."""
    least, most = bounds
    text = str(value)
    plain = not isinstance(value, bool) and text.isascii() and text.isdigit() and len(text) < 20
    if not plain or not least <= int(text) <= most:
        raise ConfigError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return int(text)


def parse_size(name: str, value: Any) -> int:
    """Returns bytes, of a number or of text with a unit: 64MiB, 1GB. Raises ConfigError."""
    try:
        return quantities.parse_size("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ConfigError(f"{name} {value!r} {error}") from None


def size_of(name: str, value: Any, bounds: tuple[int, int]) -> int:
    """Returns bytes within their bounds. Raises ConfigError."""
    least, most = bounds
    size = parse_size(name, value)
    if not least <= size <= most:
        raise ConfigError(f"{name} must be from {_size_text(least)} to {_size_text(most)}, not {value}")
    return size


def _size_text(size: int) -> str:
    """Returns the size in the largest unit that holds it whole."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = max(n for n in range(len(units)) if size % (1 << (10 * n)) == 0)
    return f"{size >> (10 * power)}{units[power]}"


def duration_of(name: str, value: Any, bounds: tuple[int, int]) -> int:
    """Returns milliseconds within their bounds, of text with units: 90s, 1h30m. Raises ConfigError."""
    least, most = bounds
    text = text_of(name, value)
    try:
        duration = quantities.parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{name} {text[:80]!r} {error}") from None
    if not least <= duration <= most:
        within = f"from {quantities.format_duration(least)} to {quantities.format_duration(most)}"
        raise ConfigError(f"{name} must be {within}, not {text}")
    return duration
