"""What is made under a name of its own until it is whole: each such place says what becomes of it when the process is
killed, and which test shows that.

Half of something never has its final name, so whatever makes a thing in steps renames it, or links it, at the end.
Those calls are looked for in all modules; who adds one says its rule here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.modules import MODULES, name_of, nodes

TESTS = Path(__file__).parent

# module -> what a start, or the next writer, does with what was left
RULES = {
    "backups/restore.py": "a start refuses",
    "store/layout.py": "a start removes log.new, and makes or converts it again",
    "store/store.py": "a start removes next, and the tables that the log does not name",
    "store/snapshot.py": "a start removes what was received",
    "system/whole_file.py": "the next writer writes over it",
    "security/files.py": "the next writer removes it",
    "security/keyring.py": "the next start removes it",
    "objectstore/directory.py": "the next put removes it",
}
SHOWN = {
    "backups/restore.py": "store/test_restore_killed.py::test_a_restore_that_is_killed_at_any_line",
    "store/layout.py": "store/test_conversion.py::test_ended_at_any_line",
    "store/store.py": "store/test_swap_killed.py::test_old_or_new",
    "store/snapshot.py": "raft/snapshots/test_installer.py::test_a_node_that_is_killed_on_the_way",
    "system/whole_file.py": "system/test_whole_file.py::test_what_a_killed_writer_left",
    "security/files.py": "security/test_files.py::test_what_a_killed_writer_leaves",
    "security/keyring.py": "security/test_keyring.py::test_killed_at_any_line",
    "objectstore/directory.py": "objectstore/test_directory.py::test_what_a_killed_put_left",
}


def _names(node: ast.AST) -> bool:
    """Returns whether it is a call that gives a file or a directory its name: os.rename, os.replace, os.link, or such a
    method of a path, which has one argument (that of a text has two)."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "os":
        return node.func.attr in {"rename", "renames", "replace", "link"}
    if node.keywords or ast.unparse(node.func.value) == "msgspec.structs":
        return False
    return node.func.attr in {"rename", "replace", "hardlink_to"} and len(node.args) == 1


def test_whatever_is_made_in_steps_has_a_rule_for_when_it_is_killed() -> None:
    found = {name_of(path) for path in MODULES for node in nodes(path) if _names(node)}
    assert found == RULES.keys()


@pytest.mark.parametrize("module", RULES)
def test_the_test_of_the_rule_is_there(module: str) -> None:
    file, _, name = SHOWN[module].partition("::")
    assert f"def {name}" in (TESTS / file).read_text(), RULES[module]
