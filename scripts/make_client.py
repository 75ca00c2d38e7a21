"""Writes what is made from the API as raftsched/surface has it, for each of its modules M:

- raftsched/surface/plain/M.py: the addresses of its operations, the values of its enumerations, and other words
- raftsched/client/generated/M.py: the client's records and typed dictionaries, and the enumerations as Literals
- raftsched/client/generated/M_given.py: the typed dictionaries, where records have the same names
- raftsched/client/generated/M_calls.py: classes of methods that make one call

raftsched/client/generated/states.py has the states that records have, and read_states.py the same as they are read.

raftsched/ui/static/core/words.js has the enumerations that the page needs.

What a module of raftsched/surface has none of is not written. A file that nothing is made for any more is deleted.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import keyword
import pkgutil
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

import raftsched.surface
from raftsched.surface.operation import AnyOf, Operation, PageOf, Special
from raftsched.surface.sdk import CLASSES, DICTS, NEEDED, Arg, Class, Sdk

ROOT = Path(__file__).resolve().parent.parent
PLAIN, CLIENT = "raftsched/surface/plain", "raftsched/client/generated"
WORDS = "raftsched/ui/static/core/words.js"
STATES, READ_STATES = f"{CLIENT}/states.py", f"{CLIENT}/read_states.py"
# The states of records, as the SDK calls them -> the enumeration that has their words
STATE_WORDS = {
    "InstanceState": ("enums", "InstanceStateName"),
    "JobState": ("enums", "JobState"),
    "OperationState": ("enums", "OperationState"),
    "WorkflowState": ("workflows", "WorkflowStateName"),
}
HEAD = '''"""Made from surface/{name}.py by scripts/make-client; not edited by hand."""

from __future__ import annotations
'''
NO_SUBJECTS = frozenset({"kinds", "named", "operation", "order", "sdk", "specials"})
WIDTH = 120
# Where the names that methods and records use come from, which are not made here.
KNOWN = {
    **dict.fromkeys(("AsyncIterator", "Mapping", "Sequence"), "collections.abc"),
    **dict.fromkeys(("datetime", "timedelta"), "datetime"),
    **dict.fromkeys(("Any", "Literal", "TypedDict", "Unpack"), "typing"),
    **dict.fromkeys(("Duration", "Moment"), "raftsched.client.moments"),
    "JobDefaults": "raftsched.client.spec_generated",
    **dict.fromkeys(("JobVersion", "job_condition"), "raftsched.client.refs"),
    **dict.fromkeys(("JobDefaults", "JobSpec"), "raftsched.client.spec_generated"),
    "Job": "raftsched.client.models_generated",
    **dict.fromkeys(("Params", "encode"), "raftsched.client.encoding"),
    **dict.fromkeys(("Transport", "items"), "raftsched.client.transport"),
    **dict.fromkeys(("condition", "conditions", "own_key", "said", "segment"), "raftsched.client.wire"),
    "Page": "raftsched.client.models",
    "pages": "raftsched.client.pages",
    "each_of": "raftsched.client.pages",
}
# Arguments that mean a thing by what was answered of it before: type -> (module, function that returns its part of the
# path, whether that is the whole path of the thing)
REFERENCES: dict[str, tuple[str, str, bool]] = {
    "JobRef": ("raftsched.client.refs", "job_path", True),
    "OperationRef": ("raftsched.client.refs", "id_of", False),
    "InstanceRef": ("raftsched.client.refs", "id_of", False),
    "WorkflowRef": ("raftsched.client.refs", "id_of", False),
}


@cache
def modules() -> dict[str, types.ModuleType]:
    """Returns the subjects of raftsched.surface by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(raftsched.surface.__path__) if not m.ispkg)
    return {n: importlib.import_module(f"raftsched.surface.{n}") for n in names if n not in NO_SUBJECTS}


def operations(name: str) -> dict[str, Operation]:
    """Returns the operations of a subject by their names there, with those that follow from another."""
    found = {}
    for constant, value in vars(modules()[name]).items():
        if isinstance(value, Operation) and _is_own(name, constant):
            for one, end in zip(value.each(), ("", "_BY_NAME"), strict=False):
                found[f"{constant}{end}"] = one
    return found


def every_operation() -> dict[str, Operation]:
    """Returns the operations of all subjects, by id. Raises ValueError for an id that two have."""
    found: dict[str, Operation] = {}
    for name in modules():
        for one in operations(name).values():
            if one.id in found:
                raise ValueError(f"two operations have the id {one.id}")
            found[one.id] = one
    return found


def enumerations(name: str) -> dict[str, tuple[Any, ...]]:
    """Returns the enumerations of a subject: what is `Literal` there, with the values in order."""
    return {
        constant: _values(value)
        for constant, value in vars(modules()[name]).items()
        if get_origin(value) is Literal and _is_own(name, constant)
    }


def words(name: str) -> dict[str, tuple[str, ...]]:
    """Returns the constants of a subject that are words, such as the names of parameters."""
    return {
        constant: value
        for constant, value in vars(modules()[name]).items()
        if isinstance(value, tuple) and _is_own(name, constant) and all(isinstance(one, str) for one in value)
    }


def structs(name: str, *, dicts: bool = False) -> dict[type[Any], Class]:
    """Returns the structs of a subject that are records of the client, or with `dicts` what is given."""
    module = modules()[name]
    return {
        struct: said for struct, said in (DICTS if dicts else CLASSES).items() if struct.__module__ == module.__name__
    }


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(Path(modules()[name].__file__ or "").read_text("utf-8"))


@cache
def _own(name: str) -> frozenset[str]:
    return frozenset(_assigned(_tree(name)))


def _assigned(tree: ast.Module) -> set[str]:
    """Returns the names that a module gives a value to."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def _is_own(name: str, constant: str) -> bool:
    """Returns whether a module assigns the name itself; others it may import."""
    return constant[0] != "_" and constant in _own(name)


def _values(literal: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(get_args(literal)))


# ---------------------------------------------------------------- addresses and enumerations, as text


def render_plain(name: str) -> str:
    lines = [f'{constant} = "{one.path}"' for constant, one in operations(name).items()]
    values = [f"{upper(constant)} = {given!r}" for constant, given in (enumerations(name) | words(name)).items()]
    return "\n".join([HEAD.format(name=name), *lines, "", *values, ""]) if lines or values else ""


def upper(name: str) -> str:
    """Returns a name such as EventName as EVENT_NAME."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


# ---------------------------------------------------------------- records


@cache
def _homes(dicts: bool) -> dict[str, str]:
    """Returns which module of the client has each class and enumeration that is made. `dicts`: a name that a record and
    a dictionary have is that of the dictionary."""
    found: dict[str, str] = {}
    for of_dicts in (not dicts, dicts):
        kind: dict[str, str] = {}
        for name in modules():
            home = f"raftsched.client.generated.{name}{'_given' if of_dicts and _is_apart(name) else ''}"
            own = [said.name for said in structs(name, dicts=of_dicts).values()]
            for made in (*own, *(() if of_dicts else enumerations(name))):
                if made in kind:
                    raise ValueError(f"{made} is made of {kind[made]} and {home}")
                kind[made] = home
        found |= kind
    return found


@cache
def _is_apart(name: str) -> bool:
    """Returns whether the dictionaries of a subject are in a module of their own: records of it have names that they
    have, or use."""
    used = {n.id for n in ast.walk(ast.parse(_classes(name, dicts=True))) if isinstance(n, ast.Name)}
    used |= {said.name for said in structs(name, dicts=True).values()}
    return any(said.name in used for said in structs(name).values())


def _classes(name: str, *, dicts: bool) -> str:
    render = _dict if dicts else _record
    return "\n".join(
        line for struct, said in structs(name, dicts=dicts).items() for line in (*render(name, struct, said), "", "")
    )


def render_records(name: str) -> str:
    literals = [f"{made} = {_literal(values)}" for made, values in enumerations(name).items()]
    code = "\n".join(
        [*literals, "", _classes(name, dicts=False), "" if _is_apart(name) else _classes(name, dicts=True)]
    )
    return _module(name, code, f"raftsched.client.generated.{name}") if code.strip() else ""


def render_all_records() -> str:
    """Returns the module that has all records, for programs that name their types."""
    homes = {name: [said.name for said in structs(name).values()] for name in modules()}
    imports = [f"from raftsched.client.generated.{name} import {', '.join(own)}" for name, own in homes.items() if own]
    every = sorted(one for own in homes.values() for one in own)
    doc = '"""Has all records that are made. Made from raftsched/surface by scripts/make-client; not edited by hand."""'
    return "\n".join([doc, "", "from __future__ import annotations", "", *imports, "", f"__all__ = {every!r}", ""])


def render_states() -> str:
    """Returns the module of the states, for programs that name their types."""
    words = {made: _literal(enumerations(name)[constant]) for made, (name, constant) in STATE_WORDS.items()}
    doc = '"""Has the states of records. Made from raftsched/surface by scripts/make-client; not edited by hand."""'
    head = [doc, "", "from __future__ import annotations", "", "from typing import Literal", ""]
    lines = [f"{made} = {literal}" for made, literal in words.items()]
    return "\n".join([*head, *lines, "", f"__all__ = {sorted(words)!r}", ""])


def render_read_states() -> str:
    """Returns the module of the states as records have them. While it runs they are text: a node of a later version may
    say another one."""
    doc = '"""Has the states as they are read: as text. Made by scripts/make-client; not edited by hand."""'
    home = STATES.removesuffix(".py").replace("/", ".")
    head = [doc, "", "from __future__ import annotations", "", "from typing import TYPE_CHECKING", ""]
    code = ["if TYPE_CHECKING:", f"    from {home} import {', '.join(STATE_WORDS)}"]
    code += ["else:  # a node of a later version may say another one", f"    {' = '.join(STATE_WORDS)} = str"]
    return "\n".join([*head, *code, "", f"__all__ = {sorted(STATE_WORDS)!r}", ""])


def render_given(name: str) -> str:
    code = _classes(name, dicts=True) if _is_apart(name) else ""
    return _module(name, code, f"raftsched.client.generated.{name}_given", dicts=True) if code else ""


def _literal(values: tuple[Any, ...]) -> str:
    return f"Literal[{', '.join(map(_text, values))}]"


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _class_node(name: str, struct: type[Any]) -> ast.ClassDef:
    found = (n for n in _tree(name).body if isinstance(n, ast.ClassDef) and n.name == struct.__name__)
    return next(found, ast.ClassDef("", [], [], [], []))  # that of one which is made of rows says nothing


def _said(name: str, struct: type[Any]) -> str:
    """Returns the docstring of a struct."""
    return ast.get_docstring(_class_node(name, struct)) or inspect.cleandoc(vars(struct).get("__doc__") or "")


def _doc(name: str, struct: type[Any], said: Class) -> list[str]:
    text = said.says or _said(name, struct)
    text = re.sub(r"\bnull\b", "None", text)
    return _docstring(text, 4) if text else []


def _docstring(text: str, indent: int) -> list[str]:
    """Returns a docstring, each paragraph wrapped anew. Paragraphs that are indented stay as they are."""
    pad = " " * indent
    lines: list[str] = []
    for n, paragraph in enumerate(text.split("\n\n")):
        if n:
            lines.append("")
        if "\n    " in paragraph:
            lines += [pad + line if line else "" for line in paragraph.split("\n")]
            continue
        line = pad + ('"""' if not n else "")
        empty = True
        for word in paragraph.split():
            if not empty and len(line) + 1 + len(word) > WIDTH:
                lines.append(line)
                line, empty = pad, True
            line += word if empty else f" {word}"
            empty = False
        lines.append(line)
    if len(lines[-1]) + 3 > WIDTH:
        lines[-1], _, word = lines[-1].rpartition(" ")
        lines.append(pad + word)
    lines[-1] += '"""'
    return lines


def _comments(name: str, struct: type[Any]) -> dict[str, str]:
    """Returns the comment behind each field."""
    source = Path(modules()[name].__file__ or "").read_text("utf-8").split("\n")
    found = {}
    for node in _class_node(name, struct).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            rest = source[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset :].decode()
            found[node.target.id] = re.sub(r"\bnull\b", "None", rest) if rest.strip().startswith("#") else ""
    return found


def _fields(struct: type[Any]) -> Iterator[msgspec.structs.FieldInfo]:
    """Yields the fields that are the struct's own, or of a base that is no class of the client."""
    theirs = {
        f.name for base in struct.__mro__[1:] if base in CLASSES or base in DICTS for f in msgspec.structs.fields(base)
    }
    return (f for f in msgspec.structs.fields(struct) if f.name not in theirs)


def _record(name: str, struct: type[Any], said: Class) -> list[str]:
    base = next((CLASSES[base].name for base in struct.__mro__[1:] if base in CLASSES), "msgspec.Struct")
    if said.base:
        base = f"{said.base.partition(':')[2]}, {base}"
    lines = [f"class {said.name}({base}, frozen=True, kw_only=True):", *_doc(name, struct, said), ""]
    hints = typing.get_type_hints(struct, include_extras=True)
    comments = _comments(name, struct)
    for field in _fields(struct):
        if field.name in said.without:
            continue
        shown = said.names.get(field.name, field.name)
        kind = said.types.get(field.name) or answered(hints[field.name])
        if field.name in said.since:
            default: Any = said.since[field.name]
        elif field.default is not msgspec.NODEFAULT:
            default = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        else:
            default = NEEDED
        value = "" if default is NEEDED else f" = {_default(default)}"
        if shown != field.encode_name:
            also = "" if default is NEEDED else f"default={_default(default)}, "
            value = f" = msgspec.field({also}name={field.encode_name!r})"
        lines.append(f"    {shown}: {kind}{value}{comments.get(field.name, '')}")
    return lines


def _default(value: Any) -> str:
    """Returns a default as it stands in a record."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        return f"{CLASSES[type(value)].name}()"
    return _text(value)


def answered(kind: Any) -> str:
    """Returns a type of an answer as the client reads it: times as datetime, enumerations as text."""
    return _rendered(kind, given=False)


def given(kind: Any) -> str:
    """Returns a type of a request as the client takes it: times and durations of Python, too."""
    return _rendered(kind, given=True)


def _rendered(kind: Any, *, given: bool) -> str:
    if kind is None or kind is type(None):
        return "None"
    if kind is Any or kind is msgspec.Raw:
        return "Any"
    if kind is msgspec.UnsetType:
        return ""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, AnyOf):
        return _rendered(kind.types[0], given=given)  # of the others less is asked for
    if origin is Annotated:
        return _of_format(_format_of(kind), given) or _rendered(arguments[0], given=given)
    if origin is Literal:
        return _alias(kind) or _literal(_values(kind)) if given else _kinds(_values(kind))
    if origin is typing.Union or origin is types.UnionType:
        parts = dict.fromkeys(part for one in arguments if (part := _rendered(one, given=given)))
        return "Any" if "Any" in parts else " | ".join(parts)
    if origin is list:
        return f"{'Sequence' if given else 'list'}[{_rendered(arguments[0], given=given)}]"
    if origin is dict:
        inner = ", ".join(_rendered(one, given=given) for one in arguments)
        return f"{'Mapping' if given else 'dict'}[{inner}]"
    for classes in (DICTS, CLASSES) if given else (CLASSES, DICTS):
        if isinstance(kind, type) and kind in classes:
            return classes[kind].name
    if isinstance(kind, Special):
        return kind.name
    if isinstance(kind, AnyOf):
        return _rendered(kind.types[0], given=given)  # of the others less is asked for
    if isinstance(kind, type) and kind.__module__ == "builtins":
        return kind.__name__
    raise TypeError(f"{kind} is no class of the client: say @record or @typed_dict at it")


def _format_of(kind: Any) -> str:
    """Returns the format of an annotated type in OpenAPI, such as date-time."""
    for meta in kind.__metadata__:
        if isinstance(meta, msgspec.Meta):
            form = (meta.extra_json_schema or meta.extra or {}).get("format")
            if form:
                return str(form)
    return ""


def _of_format(form: str, given: bool) -> str:
    if form == "date-time":
        return "Moment" if given else "datetime"
    return "Duration" if given and form == "time-span" else ""


def _kinds(values: tuple[Any, ...]) -> str:
    return " | ".join(dict.fromkeys("None" if one is None else type(one).__name__ for one in values))


def _alias(literal: Any) -> str:
    """Returns the name of an enumeration that has these values; empty: none has."""
    for name in modules():
        for constant, values in enumerations(name).items():
            if values == _values(literal):
                return constant
    return ""


def _dict(name: str, struct: type[Any], said: Class) -> list[str]:
    hints, comments = typing.get_type_hints(struct, include_extras=True), _comments(name, struct)
    kinds = {f.name: said.types.get(f.name) or given(hints[f.name]) for f in _fields(struct)}
    if not said.null:
        kinds = {field: kind.removesuffix(" | None") for field, kind in kinds.items()}
    fields = {f.encode_name: (kinds[f.name], f.name) for f in _fields(struct) if f.name not in said.without}
    total = "" if said.needed else ", total=False"
    base = next((DICTS[base].name for base in struct.__mro__[1:] if base in DICTS), "TypedDict")
    if base != "TypedDict" or all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
        lines = [f"class {said.name}({base}{total}):", *_doc(name, struct, said), ""]
        return lines + [f"    {key}: {kind}{comments.get(own, '')}" for key, (kind, own) in fields.items()]
    lines = [f"# {line}" for line in textwrap.wrap(said.says or _said(name, struct), WIDTH - 2)]
    lines += [f"{said.name} = TypedDict(", f'    "{said.name}",', "    {"]
    lines += [f'        "{key}": {kind},{comments.get(own, "")}' for key, (kind, own) in fields.items()]
    return [*lines, "    },", *(["    total=False,"] if total else []), ")"]


# ---------------------------------------------------------------- calls


def render_calls(name: str) -> str:
    by_class: dict[str, list[str]] = {}
    for one in operations(name).values():
        for sdk in one.methods:
            kind, _, _ = sdk.at.partition(".")
            by_class.setdefault(kind, []).append(method(one, sdk))
    code = []
    for kind, methods in by_class.items():
        head = [f"class {kind}Calls:", '    """Methods that make one call."""', "", "    _transport: Transport", ""]
        code += [*head, "\n\n".join(methods), "", ""]
    return _module(name, "\n".join(code), f"raftsched.client.generated.{name}_calls") if code else ""


def _parts(path: str) -> list[str]:
    return re.findall(r"\{([a-z]+)\}", path)


def _arguments(one: Operation, sdk: Sdk) -> list[Arg | Literal["*"]]:
    if sdk.args is None:
        return [_argument(one, Arg(part)) for part in _parts(one.path)]
    return ["*" if a == "*" else _argument(one, Arg(a) if isinstance(a, str) else a) for a in sdk.args]


def _argument(one: Operation, arg: Arg) -> Arg:
    """Returns an argument with the type and the default that follow from where it is sent."""
    sent = arg.sent_as or arg.name
    kind, default = arg.type, arg.default
    if arg.name == "if_match":
        kind, default = kind or "int | None", None
    elif arg.whole:
        pass
    elif arg.name == "only_new":
        kind, default = "bool", False
    elif sent in _parts(one.path):
        kind = kind or "str"
    elif not kind:
        fields = {f.encode_name: f for f in msgspec.structs.fields(one.body)} if _is_struct(one.body) else {}
        if sent not in fields:
            raise TypeError(f"{one.id}: say the type of {arg.name}")
        field = fields[sent]
        kind = given(typing.get_type_hints(one.body, include_extras=True)[field.name])
        if default is NEEDED and field.default is not msgspec.NODEFAULT:
            default = field.default
    return Arg(arg.name, kind, default, sent, arg.null, arg.whole)


def _is_struct(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, msgspec.Struct)


def _signature(arguments: list[Arg | Literal["*"]]) -> str:
    shown = ["self"]
    for arg in arguments:
        if isinstance(arg, str):
            shown.append("*")
        else:
            shown.append(f"{arg.name}: {arg.type}" + ("" if arg.default is NEEDED else f" = {_text(arg.default)}"))
    return ", ".join(shown)


def _path_of(one: Operation, arguments: list[Arg]) -> str:
    by_part = {arg.sent_as: arg for arg in arguments}
    for arg in arguments:
        reference = REFERENCES.get(arg.type)
        if reference and reference[2] and arg.sent_as in _parts(one.path):
            head = one.path[: one.path.index("}") + 1]
            whole = f"{reference[1]}({arg.name})"
            return whole if one.path == head else f'f"{{{whole}}}{one.path[len(head) :]}"'
    shown = one.path
    for part in _parts(one.path):
        arg = by_part[part]
        reference = REFERENCES.get(arg.type)
        value = f"{reference[1]}({arg.name})" if reference else arg.name
        shown = shown.replace(f"{{{part}}}", f"{{segment({value})}}")
    return f'f"{shown}"' if _parts(one.path) else f'"{shown}"'


def _mapping(arguments: list[Arg]) -> str:
    """Returns the dictionary of what is sent, without what is None."""
    entries = [a.name if a.name.startswith("**") else f'"{a.sent_as}": {a.name}' for a in arguments]
    if len(entries) == 1 and entries[0].startswith("**"):
        return entries[0][2:]
    text = f"{{{', '.join(entries)}}}"
    may_be_none = any(arg.default is None and not arg.null for arg in arguments)
    return f"said({text})" if may_be_none else text


def method(one: Operation, sdk: Sdk) -> str:
    arguments = _arguments(one, sdk)
    real = [arg for arg in arguments if not isinstance(arg, str)]
    path = _path_of(one, real)
    rest = [arg for arg in real if arg.sent_as not in _parts(one.path) and arg.name not in ("if_match", "only_new")]
    in_query = [arg for arg in rest if arg.sent_as in one.query or (one.body is None and arg.name.startswith("**"))]
    in_body = [arg for arg in rest if arg not in in_query]
    headers = _headers(one, {arg.name: arg for arg in real})
    answer = _answer(one)
    kind, is_page = (answer.item, True) if isinstance(answer, PageOf) else (answer, False)
    is_said = sdk.returns and not sdk.gives and (not is_page or "cursor" in one.query)
    shown = "" if sdk.gives == "" else sdk.returns if kind is None or is_said else answered(kind)
    name = sdk.at.partition(".")[2]
    doc = _docstring(f"{sdk.says or one.says or one.summary + '.'} {sdk.also}".strip(), 8)
    if is_page and "cursor" in one.query:
        most = ", most: int | None = None"
        signature = _signature(arguments)
        at = signature.find(", **")
        mark = "" if "*" in arguments else ", *"
        signature = signature + mark + most if at < 0 else signature[:at] + mark + most + signature[at:]
        query = _mapping([Arg(a.name, a.type, NEEDED, a.sent_as) for a in in_query]) if in_query else "{}"
        head = f"    def {name}({signature}) -> AsyncIterator[{shown}]:"
        return "\n".join([head, *doc, f"        return each_of(self._transport, {shown}, {path}, {query}, most)"])
    returns = sdk.returns or (f"Sequence[{shown}]" if is_page else shown or "None")
    lines = [f"    async def {name}({_signature(arguments)}) -> {returns}:", *doc]
    asked = "Page" if is_page else shown or "None"
    call = _call(one, sdk, asked, path, in_query, in_body, headers)
    if sdk.gives:
        lines.append(f"        return ({call}).{sdk.gives}")
    elif is_page:
        lines.append(f"        return items({shown}, {call})")
    else:
        lines.append(f"        {'return ' if shown else ''}{call}")
    return "\n".join(lines)


def _answer(one: Operation) -> Any:
    """Returns the type of the answer that is no problem; None: it has no body, or more than one type."""
    found = list({id(r.schema): r.schema for status, r in one.answers.items() if status < 300}.values())
    return found[0] if len(found) == 1 else None


def _headers(one: Operation, real: dict[str, Arg]) -> str:
    if "only_new" in real:
        return "conditions(only_new, if_match)"
    if "if_match" in real:
        job = "JobVersion" in real["if_match"].type
        return f"{'job_' if job else ''}condition(if_match)"
    return "own_key()" if "Idempotency-Key" in one.headers else ""


def _call(
    one: Operation, sdk: Sdk, asked: str, path: str, in_query: list[Arg], in_body: list[Arg], headers: str
) -> str:
    query = _mapping([Arg(a.name, a.type, NEEDED, a.sent_as) for a in in_query]) if in_query else ""
    if one.method == "GET":
        own = "" if sdk.own and "min_index" in one.query else ", own=False"
        return f"await self._transport.get({asked}, {path}{', ' + query if query else ''}{own})"
    body = (in_body[0].name if in_body[0].whole else _mapping(in_body)) if in_body else ""
    keyed = headers == "own_key()" or (one.changes_nothing and not headers)  # to what changes nothing a key is nothing
    if one.method == "POST" and keyed and asked != "None":
        more = (f", {body}" if body else "") + (f", query={query}" if query else "")
        return f"await self._transport.post({asked}, {path}{more})"
    more = f", query={query}" if query else ""
    if body:
        more += f", body=encode({body})"
    elif one.body is not None:
        more += ', body=b"{}"'
    more += f", headers={headers}" if headers else ""
    if one.method == "POST" and (headers == "own_key()" or one.repeatable or one.changes_nothing):
        more += ", repeatable=True"
    if headers.startswith("conditions("):
        more += ", repeatable=not only_new"
    send = f'await self._transport.send("{one.method}", {path}{more})'
    return send if asked == "None" else f"({send}).decoded({asked})"


# ---------------------------------------------------------------- the page


def render_words() -> str:
    """Returns the enumerations that scripts of the page import from core/words.js."""
    scripts = "".join(path.read_text("utf-8") for path in (ROOT / WORDS).parent.parent.rglob("*.js"))
    taken = {
        name
        for names in re.findall(r'import \{([^}]*)\} from "[./a-z]*/words\.js"', scripts)
        for name in re.findall(r"\w+", names)
    }
    head = (
        "/** The words of which a request or an answer has one. Made by scripts/make-client; not edited by hand. */\n"
    )
    found = [
        f"export const {upper(name)} = {json.dumps(values)};"
        for subject in modules()
        for name, values in enumerations(subject).items()
        if upper(name) in taken
    ]
    return "\n".join([head, *found, ""])


# ---------------------------------------------------------------- files


def _module(name: str, code: str, module: str, *, dicts: bool = False) -> str:
    """Returns the code with its imports."""
    tree = ast.parse(code)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef)} | _assigned(tree)
    homes = {**KNOWN, **_homes(dicts), **{kind: module for kind, (module, _, _) in REFERENCES.items()}}
    homes |= {function: module for module, function, _ in REFERENCES.values()}
    if not module.endswith("_calls"):
        homes |= dict.fromkeys(STATE_WORDS, READ_STATES.removesuffix(".py").replace("/", "."))
    homes |= {kind: home for said in CLASSES.values() for home, _, kind in [said.base.partition(":")] if kind}
    by_module: dict[str, list[str]] = {}
    for one in sorted(used - defined - {"msgspec"}):
        if one in homes and homes[one] != module:
            by_module.setdefault(homes[one], []).append(one)
    lines = ["import msgspec"] if "msgspec" in used else []
    lines += [f"from {home} import {', '.join(names)}" for home, names in by_module.items()]
    return "\n".join([HEAD.format(name=name), *lines, "", code])


def made() -> dict[str, str]:
    """Returns the text of each file, by path, as ruff formats it."""
    found = {}
    for name in modules():
        for path, text in (
            (f"{PLAIN}/{name}.py", render_plain(name)),
            (f"{CLIENT}/{name}.py", render_records(name)),
            (f"{CLIENT}/{name}_given.py", render_given(name)),
            (f"{CLIENT}/{name}_calls.py", render_calls(name)),
        ):
            if text:
                found[path] = formatted(path, text)
    every = f"{CLIENT}/records.py"
    found[STATES] = formatted(STATES, render_states())
    found[READ_STATES] = formatted(READ_STATES, render_read_states())
    return {**found, every: formatted(every, render_all_records()), WORDS: render_words()}


def formatted(path: str, text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(ROOT / path), "-"]
    for command in (["check", "--quiet", "--select", "I,F401", "--fix", *name], ["format", "--quiet", *name]):
        text = subprocess.run([*ruff, *command], input=text, text=True, capture_output=True, check=True).stdout
    return text


def kept() -> set[str]:
    """Returns the files that are there."""
    return {WORDS, *(f"{folder}/{p.name}" for folder in (PLAIN, CLIENT) for p in (ROOT / folder).glob("[!_]*.py"))}


def main() -> None:
    texts = made()
    for path, text in texts.items():
        (ROOT / path).write_text(text, "utf-8")
    for path in kept() - texts.keys():
        (ROOT / path).unlink()


if __name__ == "__main__":
    main()
