"""Reads the values of flags, each by the kind that its row in config/flags.py has. Every error is a ConfigError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from raftsched import names
from raftsched.config import addresses, values, work
from raftsched.config.flags import FLAGS, Flag


class Kind(NamedTuple):
    """Says how the value of a flag is read. `unsaid`: the text that stands for none; None: its value is None then."""

    read: Callable[[Flag, Any], Any]
    unsaid: str | None = None


KINDS = {
    "address": Kind(lambda flag, value: addresses.parse_address(flag.name, value)),
    "directories": Kind(lambda _, value: work.paths_of(value), ""),
    "duration": Kind(lambda flag, value: values.duration_of(flag.name, value, flag.bounds)),
    "file": Kind(lambda flag, value: values.file_of(flag.name, value)),
    "hosts": Kind(lambda _, value: addresses.hosts_of(value), ""),
    "labels": Kind(lambda _, value: work.parse_labels(value), ""),
    "list": Kind(lambda flag, value: tuple(values.list_of(flag.name, value)), ""),
    "log format": Kind(lambda _, value: work.log_format_of(value)),
    "modules": Kind(lambda flag, value: work.modules_of(flag.name, value), ""),
    "namespaces": Kind(lambda flag, value: work.served(flag.name, value, names.NAMESPACE)),
    "networks": Kind(lambda _, value: addresses.networks_of(value), ""),
    "node id": Kind(lambda _, value: addresses.node_id(value)),
    "number": Kind(lambda flag, value: values.number_of(flag.name, value, flag.bounds)),
    "peers": Kind(lambda _, value: addresses.parse_peers(value), ""),
    "queues": Kind(lambda flag, value: work.served(flag.name, value, names.QUEUE)),
    "servers": Kind(lambda _, value: work.servers_of(value)),
    "size": Kind(lambda flag, value: values.size_of(flag.name, value, flag.bounds)),
    "switch": Kind(lambda flag, value: values.switch_of(flag.name, value), "false"),
    "text": Kind(lambda flag, value: values.text_of(flag.name, value)),
    "users": Kind(lambda flag, value: work.of_namespaces(flag.name, value), ""),
    "variables": Kind(lambda flag, value: work.variables_of(flag.name, value), ""),
    "worker name": Kind(lambda _, value: work.worker_name(value)),
}


def value_of(name: str, settings: Mapping[str, Any]) -> Any:
    """Returns the value of the flag of this name, its default where nothing is said. Raises ConfigError."""
    flag = FLAGS[name]
    kind = KINDS[flag.kind]
    value = settings.get(name)
    if value is None:
        value = kind.unsaid if flag.default is None else flag.default
    return None if value is None else kind.read(flag, value)


def default_of(name: str) -> Any:
    """Returns the value that a flag has where nothing is said."""
    return value_of(name, {})


def by_kind(fields: Iterable[str], settings: Mapping[str, Any], but: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the values of all flags that are fields of a configuration as their kind alone has them, by field. `but`:
    fields that are read with more in mind. Raises ConfigError."""
    wanted = set(fields).difference(but)
    return {flag.field: value_of(flag.name, settings) for flag in FLAGS.values() if flag.field in wanted}
