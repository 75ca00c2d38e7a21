"""Notes beside the structs and operations of the API, for where the SDK speaks otherwise.

`record` makes a struct of answers a class of the SDK, `typed_dict` a struct of requests; `Sdk` is a method that makes
one call. scripts/make-client reads them; nothing of it is looked at while a node or a client runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

S = TypeVar("S", bound=type[Any])


class _Needed:
    """The default of what has to be given."""

    def __repr__(self) -> str:
        return "NEEDED"


NEEDED: Any = _Needed()


@dataclass(frozen=True)
class Class:
    """A class of the SDK. `since`: fields that nodes of earlier versions do not say, with what is read instead.
    `types`: of fields that are others there. `names`: of fields that have another name there. `without`: fields that
    it has not. `says`: its docstring, where that of the struct would not do. `base`: a class with methods, as
    "module:Class". Of what is given: `null`: its fields may be None; `needed`: none may be left out."""

    name: str
    since: Mapping[str, Any]
    types: Mapping[str, str]
    names: Mapping[str, str]
    without: tuple[str, ...]
    says: str
    is_dict: bool
    base: str = ""
    null: bool = True
    needed: bool = False


CLASSES: dict[type[Any], Class] = {}  # records
DICTS: dict[type[Any], Class] = {}  # what is given; a struct may be both


def record(
    name: str,
    *,
    since: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
    says: str = "",
    base: str = "",
) -> Callable[[S], S]:
    """Makes a struct of answers a record of the SDK: frozen, times as datetime, values of enumerations as text."""
    return _noted(Class(name, since or {}, types or {}, names or {}, without, says, False, base))


def typed_dict(
    name: str,
    *,
    types: Mapping[str, str] | None = None,
    says: str = "",
    null: bool = True,
    needed: bool = False,
    without: tuple[str, ...] = (),
) -> Callable[[S], S]:
    """Makes a struct of requests a TypedDict of the SDK."""
    return _noted(Class(name, {}, types or {}, {}, without, says, True, null=null, needed=needed))


def _noted(said: Class) -> Callable[[S], S]:
    def note(struct: S) -> S:
        (DICTS if said.is_dict else CLASSES)[struct] = said
        return struct

    return note


@dataclass(frozen=True)
class Arg:
    """An argument of a method of the SDK. It is sent as the part of the path, the query parameter or the field of the
    body that has its name, or `sent_as`; `if_match` and `only_new` are headers. `type` and `default`: where they do not
    follow from the body's struct. A name with ** takes any number of such fields or parameters. What is None is not
    sent, unless `null`. `whole`: it is all of the body."""

    name: str
    type: str = ""
    default: Any = NEEDED
    sent_as: str = ""
    null: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Sdk:
    """A method that makes one call: `at` is class and method. `args`: its arguments in order, "*" before those that are
    named; None: the parts of the path. Its docstring is the text of the operation, or its summary where it has none,
    or `says`, and behind that `also`. `gives`: the field of the answer that it returns; None: all of the answer; "":
    nothing. `returns`: the type, where it does not follow from the answer; of an operation with several answers, that
    of which all are read. `own`: of a GET, whether it waits until the node has seen this client's own writes."""

    at: str
    args: tuple[str | Arg, ...] | None = None
    says: str = ""
    also: str = ""
    gives: str | None = None
    returns: str = ""
    own: bool = True
