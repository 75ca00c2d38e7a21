"""Writes the methods of raftsched.Client from those of raftsched.AsyncClient: raftsched/client/sync/*.py.

Each public method of the classes below becomes one of the same name, parameters, types and docstring, which waits for
the asynchronous one (`bridge.py`): what is awaited is given, what is iterated is iterated.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent.parent / "raftsched" / "client"


def _sources() -> dict[str, dict[str, str]]:
    """Returns module -> class -> where AsyncClient has it, as its `_speak` says: `self.jobs = Jobs(transport)`."""
    tree = ast.parse((CLIENT / "aio.py").read_text("utf-8"))
    modules = {a.name: n.module for n in tree.body if isinstance(n, ast.ImportFrom) and n.module for a in n.names}
    found: dict[str, dict[str, str]] = {"aio": {"AsyncClient": "c"}}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "_speak":
            for one in node.body:
                if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
                    kind = ast.unparse(one.value.func)
                    module = modules[kind].rpartition(".")[2]
                    found.setdefault(module, {})[kind] = ast.unparse(one.targets[0]).replace("self", "c", 1)
    return found


SOURCES = _sources()
RENAMED = {"aio": "calls", "AsyncClient": "Calls"}
# Written by hand in sync/client.py.
OWN = {"close", "within"}
HAND_MADE = {"Underway": "raftsched.client.sync.underway"}


def render(module: str) -> str:
    """The module of the synchronous client that belongs to this one of the asynchronous client."""
    tree = ast.parse((CLIENT / f"{module}.py").read_text("utf-8"))
    known = _imports(tree, f"raftsched.client.{module}")
    used: set[str] = set()
    classes: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in SOURCES[module]:
            bases = [_base(base, known) for base in node.bases]
            for base, _ in bases:
                node.body += base.body
            classes.append(_class(node, SOURCES[module][node.name], used))
            known = {name: home for _, theirs in bases for name, home in theirs.items()} | known
    if module == "aio":
        parts = {kind: source for source, kinds in SOURCES.items() if source != "aio" for kind in kinds}
        known |= {kind: f"raftsched.client.sync.{source}" for kind, source in parts.items()}
        used |= parts.keys()
    used |= {"Bridge"}
    known |= {**HAND_MADE, "Bridge": "raftsched.client.sync.bridge", "Iterator": "collections.abc"}
    by_module: dict[str, list[str]] = {}
    for name in sorted(used):
        if name in known:
            by_module.setdefault(known[name], []).append(name)
    lines = [f'"""Made from client/{module}.py by scripts/make-sync; not edited by hand."""', ""]
    lines += ["from __future__ import annotations", ""]
    ours = {m for m in by_module if m.startswith("raftsched.")}
    for group in (sorted(by_module.keys() - ours), sorted(ours)):
        lines += [f"from {m} import {', '.join(by_module[m])}" for m in group] + [""]
    return "\n".join(lines) + "\n\n" + "\n\n\n".join(classes) + "\n"


def _base(base: ast.expr, known: dict[str, str]) -> tuple[ast.ClassDef, dict[str, str]]:
    """Returns a base class that scripts/make-client wrote, and where each name of its module comes from."""
    module = known[base.id] if isinstance(base, ast.Name) else known[ast.unparse(base).rpartition(".")[0]]
    if isinstance(base, ast.Attribute):
        module = f"{module}.{ast.unparse(base.value)}"
    tree = ast.parse((CLIENT.parent.parent / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    name = ast.unparse(base).rpartition(".")[2]
    (node,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    return node, _imports(tree, module)


def _imports(tree: ast.Module, module: str) -> dict[str, str]:
    """Where each name of a module comes from."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {t.id: module for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = module
    return found


def _class(node: ast.ClassDef, at: str, used: set[str]) -> str:
    name = RENAMED.get(node.name, node.name)
    doc = ast.get_docstring(node)
    lines = [f"class {name}:"]
    if doc and node.name not in RENAMED:
        lines += [f'    """{doc}"""', ""]
    lines += ["    def __init__(self, bridge: Bridge) -> None:", "        self._bridge = bridge"]
    if node.name in RENAMED:
        places = [(place, kind) for kinds in SOURCES.values() for kind, place in kinds.items() if place != "c"]
        lines += [f"        self{place[1:]} = {kind}(bridge)" for place, kind in places]
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name[0] != "_":
            lines += ["", _method(method, at, used)] if method.name not in OWN else []
    return "\n".join(lines)


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, at: str, used: set[str]) -> str:
    assert node.returns is not None, f"{node.name} does not say what it returns"
    given = ast.unparse(node.returns)
    each = given.startswith("AsyncIterator[")
    for annotation in [node.returns, *(a.annotation for a in _all(node.args)), *node.args.defaults]:
        used |= {n.id for n in ast.walk(annotation or ast.Constant(None)) if isinstance(n, ast.Name)}
    used -= {"AsyncIterator"}
    used |= {"Iterator"} if each else set()
    call = f"{at}.{node.name}({_arguments(node.args)})"
    if each:
        body = f"return self._bridge.each(lambda c: {call})"
    elif given in HAND_MADE:
        body = f"return {given}(self._bridge, self._bridge.run(lambda c: {call}).operation)"
    elif given == "None":
        body = f"self._bridge.run(lambda c: {call})"
    else:
        body = f"return self._bridge.run(lambda c: {call})"
    lines = [f"    def {node.name}({ast.unparse(node.args)}) -> {given.replace('AsyncIterator', 'Iterator')}:"]
    doc = ast.get_docstring(node, clean=False)
    if doc:
        lines.append(f'        """{doc}"""')
    return "\n".join([*lines, f"        {body}"])


def _all(arguments: ast.arguments) -> list[ast.arg]:
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more) if a.arg != "self"]


def _arguments(arguments: ast.arguments) -> str:
    given = [a.arg for a in (*arguments.posonlyargs, *arguments.args) if a.arg != "self"]
    given += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    return ", ".join([*given, *([f"**{arguments.kwarg.arg}"] if arguments.kwarg else [])])


def main() -> None:
    paths = []
    for module in SOURCES:
        path = CLIENT / "sync" / f"{RENAMED.get(module, module)}.py"
        path.write_text(render(module), "utf-8")
        paths.append(str(path))
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--quiet", "--select", "I", "--fix", *paths], check=True)
    subprocess.run([*ruff, "format", "--quiet", *paths], check=True)


if __name__ == "__main__":
    main()
