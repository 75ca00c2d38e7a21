"""Writes what is made from the table of a job's fields (raftsched/api/jobs/fields.py):

- raftsched/surface/jobs_generated.py: the types of requests and answers
- raftsched/api/jobs/generated.py: the straight-line code between them and Policy
- raftsched/client/spec_generated.py and models_generated.py: the client's JobSpec and JobDefaults, and its Job
- raftsched/cli/jobs/generated.py: options of `jobs create`, what `jobs export` leaves out
- raftsched/ui/static/pages/editor/fields.js: the fields as the editor of the page explains them
- the table in docs/api.md
"""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from raftsched.api.jobs import concurrency, conditions, handlers, notify, outcomes, rules, triggers
from raftsched.api.jobs.fields import FIELDS, Field, Rule
from raftsched.surface import content, enums, job_shapes, scalars

ROOT = Path(__file__).resolve().parent.parent
HEAD = '''"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations
'''
_NO_SPECS = {"Any", "Duration", "Literal", "Mapping", "Moment", "Params", "Sequence"}
# Fields of the client's Job that are words, which type checkers know.
_WORDS = {"state": "JobState", "last_state": "InstanceState"}
_SAID_APART = ("trigger", "handler")  # of JobSpec alone: a function that is declared as a job is its handler
INHERITED = [field for field in FIELDS if field.inherited]
DOCS_BEGIN, DOCS_END = "<!-- made by scripts/make-fields -->\n", "<!-- end -->\n"


def _json(value: Any) -> Any:
    return msgspec.to_builtins(value)


# The API


def render_types() -> str:
    code = "\n".join([_job_in(), _defaults_in(), _job_shown()])
    imports = ["from typing import Any", "import msgspec", "from msgspec import Raw"]
    return "\n".join([HEAD, *imports, *_all_imported((content, enums, scalars), code), "", code])


def render_api() -> str:
    code = "\n".join([_leave_out_defaults(), _policy_of(), _fill_in()])
    imports = [
        "from typing import Any",
        "from raftsched.api.http.problems import FieldError",
        "from raftsched.cluster_settings import Settings",
        "from raftsched.core.model import Policy, Trigger",
        "from raftsched.surface.jobs_generated import JobIn, JobShown",
    ]
    imports += _all_imported((concurrency, conditions, handlers, notify, outcomes, rules, triggers, content), code)
    return "\n".join([HEAD, *imports, "", code])


def _all_imported(modules: Sequence[ModuleType], code: str) -> list[str]:
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return [line for module in modules for line in _imported(module, used)]


def _imported(module: ModuleType, used: set[str]) -> list[str]:
    """The import of the names that a module defines itself."""
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    own = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    own |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    names = sorted(own & used)
    return [f"from {module.__name__} import {', '.join(names)}"] if names else []


def _job_in() -> str:
    lines = [
        "class JobIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):",
        '    """A job in a request."""',
        "",
    ]
    for f in FIELDS:
        empty = isinstance(f.default, dict | list) and f.name not in {i.name for i in INHERITED}
        lines.append(f"    {f.name}: {f.kind.given} = {f.default!r}" if empty else _optional(f))
    own = ["name: Name | None = None", "namespace: Namespace | None = None", "suspended: bool = False"]
    return "\n".join([*lines, *(f"    {line}" for line in own), ""])


def _optional(f: Field) -> str:
    return f"    {f.name}: {f.kind.given} | None = None"


def _defaults_in() -> str:
    head = [
        "class DefaultsIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):",
        '    """Values for fields that a job leaves out. `timezone` is that of triggers that count in one."""',
        "",
        "    timezone: Zone | None = None",
    ]
    return "\n".join([*head, *(_optional(f) for f in INHERITED), ""])


def _job_shown() -> str:
    lines = [
        "class JobShown(msgspec.Struct, kw_only=True):",
        '    """The content of a job in an answer: what Job.body holds, with its defaults filled in."""',
        "",
    ]
    for f in FIELDS:
        value = f" = {_json(f.default)!r}"
        if f.required:
            value = ""
        elif f.kind.shown == "Raw":  # Raw | None would decode nothing but null
            value = f" = Raw({msgspec.json.encode(f.default)!r})"
        lines.append(f"    {f.name}: {f.kind.shown}{value}")
    return "\n".join([*lines, ""])


def _call(f: Field, rule: Rule) -> str:
    """The call of a rule: each of its parameters by its name (see fields.py)."""
    fields = {one.name for one in FIELDS}
    places = {name: name for name in ("errors", "settings", "now_ms", "kept", "namespace", "policy")}
    places |= {name: f"given.{name}" for name in fields} | {
        "given": f"given.{f.name}",
        "job": "given",
        "due": "trigger",
    }
    arguments = []
    for name, parameter in inspect.signature(rule).parameters.items():
        if name in places:
            arguments.append(places[name])
        elif parameter.default is inspect.Parameter.empty:
            raise ValueError(f"{rule.__name__} of {f.name}: nobody knows what to give it as {name!r}")
    return f"{rule.__name__}({', '.join(arguments)})"


def _leave_out_defaults() -> str:
    code, constants = [], []
    for f in FIELDS:
        given = f"given.{f.name}"
        if f.stored is not None:
            code += [f"    if {given} is not None:", f"        {given} = {_call(f, f.stored)}"]
        elif isinstance(f.default, msgspec.Struct):
            constants.append(f"_{f.name.upper()} = {type(f.default).__name__}()")
            code += [f"    if {given} is not None and {given} == _{f.name.upper()}:", f"        {given} = None"]
        elif f.left_out is not None or (f.default is not None and _optional(f) in _job_in()):
            code += [
                f"    if {given} == {(f.left_out if f.default is None else f.default)!r}:",
                f"        {given} = None",
            ]
    doc = '    """A default that is given is the same as one left out: so a repeated creation changes nothing."""'
    return "\n".join([*constants, "", "", "def leave_out_defaults(given: JobIn) -> None:", doc, *code, ""])


def _policy_of() -> str:
    always, code, derived = [], [], []
    values = []
    for f in FIELDS:
        given = f"given.{f.name}"
        value = given if f.rule is None else _call(f, f.rule)
        if f.always:
            always.append(f"    {f.policy} = {value}")
            values.append(f"{f.policy}={f.policy}")
        elif f.policy:
            there = given if f.default == [] else f"{given} is not None"
            code += [f"    if {there}:", f'        more["{f.policy}"] = {value}']
        elif f.check is not None:
            there = given if isinstance(f.default, dict) else f"{given} is not None"
            code += [f"    if {there}:", f"        {_call(f, f.check)}"]
        if f.derived:
            derived.append(f"    if {given} is not None and not errors:")
            derived += [f"        more[{name!r}] = {_call(f, rule)}" for name, rule in f.derived]
    head = (
        "def policy_of(given: JobIn, settings: Settings, now_ms: int, errors: list[FieldError], "
        "kept: Policy | None, namespace: str) -> Policy:"
    )
    doc = '    """Returns what core looks at; refusals are added to `errors`, then the result is of no use."""'
    more = "    more: dict[str, Any] = {}  # what is not as it is by default"
    return "\n".join([head, doc, *always, more, *code, *derived, f"    return Policy({', '.join(values)}, **more)", ""])


def _fill_in() -> str:
    lines = [
        "def fill_in(content: JobShown, policy: Policy) -> None:",
        '    """Fills in the defaults that depend on more than the field itself."""',
    ]
    for f in FIELDS:
        if f.shown is not None:
            shown = _call(f, f.shown).replace("given.", "content.")
            lines += [f"    if content.{f.name} is None:", f"        content.{f.name} = {shown}"]
    return "\n".join([*lines, ""])


# The client


def render_spec() -> str:
    code = [
        "class JobFields(TypedDict, total=False):",
        '    """A job without its name, and without what it runs and when."""',
        "",
        "    namespace: str",
        "    suspended: bool",
        *(f"    {f.name}: {f.kind.spec}" for f in FIELDS if f.name not in _SAID_APART),
        "",
        "",
        "class JobSpec(JobFields, total=False):",
        '    """A job to be created."""',
        "",
        "    name: str",
        *(f"    {f.name}: {f.kind.spec}" for f in FIELDS if f.name in _SAID_APART),
        "",
        "",
        "class JobDefaults(TypedDict, total=False):",
        '    """Values for fields that a job leaves out; `timezone` is that of triggers that count in one."""',
        "",
        "    timezone: str",
        *(f"    {f.name}: {f.kind.spec}" for f in INHERITED),
    ]
    names: set[str] = set()
    for f in FIELDS:
        names |= {n.id for n in ast.walk(ast.parse(f.kind.spec)) if isinstance(n, ast.Name) and n.id[0].isupper()}
    head = [
        "from collections.abc import Mapping, Sequence",
        "from typing import Any, Literal, TypedDict",
        "from raftsched.client.encoding import Params",
        "from raftsched.client.moments import Duration, Moment",
        f"from raftsched.client.generated.content import {', '.join(sorted(names - _NO_SPECS))}",
        "",
    ]
    return "\n".join([HEAD, *head, *code, ""])


def render_models() -> str:
    states = "from raftsched.client.generated.read_states import InstanceState, JobState"
    warning = "from raftsched.client.generated.job_shapes import JobWarning"
    head = ["from datetime import datetime", "from typing import Any", "import msgspec", warning, states, ""]
    return "\n".join([HEAD, *head, *_job_model(), ""])


def _job_model() -> list[str]:
    """The client's Job: its state as in JobOut, then its content."""
    lines = [
        "class Job(msgspec.Struct, frozen=True, kw_only=True):",
        '    """A job: its state, then its content."""',
        "",
    ]
    lines += _answered(job_shapes, "JobOut")
    lines.append("    # its content, as given, with the defaults filled in")
    for f in FIELDS:
        value = f" = {_json(f.default)!r}"
        if f.required:
            value = ""
        elif f.kind.model.endswith("| None"):
            value = " = None"
        lines.append(f"    {f.name}: {f.kind.model}{value}")
    lines.append("    warnings: list[JobWarning] = []  # of the write that this answers: what nobody offers now")
    return lines


def _answered(module: ModuleType, name: str) -> list[str]:
    """The fields of an answer as the client reads them, with the comments behind them: times as datetime."""
    text = Path(module.__file__ or "").read_text("utf-8")
    (struct,) = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name)
    source = text.split("\n")
    lines = []
    for node in struct.body:
        if isinstance(node, ast.AnnAssign):
            assert isinstance(node.target, ast.Name)
            kind = ast.unparse(node.annotation).replace("TimeText", "datetime")
            if node.target.id in _WORDS:
                kind = kind.replace("RanStateName", "str").replace("str", _WORDS[node.target.id])
            if node.value is not None:
                kind += f" = {ast.unparse(node.value)}"
            lines.append(f"    {node.target.id}: {kind}{source[node.lineno - 1][node.end_col_offset :]}")
    return lines


# The command line


def render_cli() -> str:
    options: list[tuple[int, str]] = []
    for f in FIELDS:
        options += [(f.help_order, _option(f, text)) for text in f.options]
    options.sort(key=lambda one: one[0])
    same = [f.name for f in FIELDS if f.options and f.kind.model in ("int", "int | None", "str", "str | None")]
    defaults = {f.name: _default(f) for f in FIELDS if f.default is not None or f.left_out is not None}
    unsaid = ["timezone", *(f.name for f in INHERITED if f.name not in defaults)]
    return "\n".join(
        [
            HEAD,
            "from collections.abc import Callable, Mapping",
            "from typing import Any",
            "import click",
            "# Options that are fields of a job, in the order of the help.",
            "OPTIONS: tuple[Callable[[Any], Any], ...] = (",
            *(f"    {text}," for _, text in options),
            ")",
            "# Those of them whose value is that of the field of their name.",
            f"SAME = {tuple(same)!r}",
            "# What a job means that leaves these fields out.",
            f"DEFAULTS: Mapping[str, Any] = { ({f.name: defaults[f.name] for f in FIELDS if f.name in defaults})!r}",
            "# Fields whose absence, or null, means what the namespace says.",
            f"UNSAID = frozenset({unsaid!r})",
            "",
        ]
    )


def _default(f: Field) -> Any:
    return f.default_text if f.default is None else _json(f.default)


def _option(f: Field, text: str) -> str:
    words, _, help_text = text.partition(": ")
    flag, _, metavar = words.partition(" ")
    many = metavar.endswith("...")
    arguments = [repr(flag)]
    if metavar:
        arguments.append(f"metavar={metavar.removesuffix('...')!r}")
    if f.kind.click:
        arguments.append(f"type={f.kind.click}")
    if many:
        arguments.append("multiple=True")
    if help_text:
        arguments.append(f"help={help_text!r}")
    return f"click.option({', '.join(arguments)})"


# The page


def render_page() -> str:
    """The fields as the editor of the page explains them: {name: [what it says, its default]}."""
    lines = [
        "/** The fields of a job, as the editor explains them. Made by scripts/make-fields; not edited by hand. */",
        "",
    ]
    lines.append("export const FIELDS = {")
    for f in FIELDS:
        default = f.default_text or ("" if f.default in (None, {}, []) else str(f.default))
        told = [text.replace("`", "") for text in (f.about, default)]
        lines.append(f"  {f.name}: {json.dumps(told, ensure_ascii=False)},")
    return "\n".join([*lines, "};", ""])


# The documentation


def render_docs() -> str:
    """The section of docs/api.md between its two marks."""
    lines = ["| field | what it says | default | from the namespace |", "|---|---|---|---|"]
    for f in FIELDS:
        default = f.default_text or ("" if f.default in (None, {}, []) else f"`{f.default}`")
        lines.append(f"| `{f.name}` | {f.about} | {'needed' if f.required else default} | {'yes' * f.inherited} |")
    return "\n".join([*lines, ""])


def with_docs(text: str) -> str:
    before, begin, rest = text.partition(DOCS_BEGIN)
    _, end, after = rest.partition(DOCS_END)
    return before + begin + render_docs() + end + after


MADE: dict[str, Callable[[], str]] = {
    "raftsched/surface/jobs_generated.py": render_types,
    "raftsched/api/jobs/generated.py": render_api,
    "raftsched/client/spec_generated.py": render_spec,
    "raftsched/client/models_generated.py": render_models,
    "raftsched/cli/jobs/generated.py": render_cli,
    "raftsched/ui/static/pages/editor/fields.js": render_page,
}


def formatted(path: str, text: str) -> str:
    """As ruff leaves it, which reads Python."""
    if not path.endswith(".py"):
        return text
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(ROOT / path), "-"]
    for command in (["check", "--quiet", "--select", "I,F401", "--fix", *name], ["format", "--quiet", *name]):
        text = subprocess.run([*ruff, *command], input=text, text=True, capture_output=True, check=True).stdout
    return text


def main() -> None:
    for path, render in MADE.items():
        (ROOT / path).write_text(formatted(path, render()), "utf-8")
    docs = ROOT / "docs" / "api.md"
    docs.write_text(with_docs(docs.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
