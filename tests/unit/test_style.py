"""The style of docstrings: plain first lines, which say what is returned or done, and plain pronouns."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.modules import MODULES, each, name_of, nodes, parsed

# A docstring that begins like this describes something about its subject and leaves out what that is, or is no
# sentence at all.
_RIDDLES = """
    What Who Whose Whom Which Of Until As When While Where That May Will Whether How For In By With Without To At After
    Before Between Under On Also Not True False
"""
RIDDLES = frozenset(_RIDDLES.split())
RIDDLES_OF_CLIENTS = frozenset(("What", "Who", "Whose", "Whom", "Of"))  # of these rooms, whose texts follow later
CLIENTS = ("client/", "surface/")
RIM = ("api/", "cli/", *CLIENTS)  # where modules may begin with a noun for now
# Verbs of sentences. The second ones are nouns as well, and count where the sentence begins with them.
_VERBS = """
    acts adds admits adopts allows announces appends applies are asks assigns becomes begins belongs binds blocks
    bounds brings builds can cannot carries chooses clears closes collects comes commits compacts compares compiles
    completes composes computes configures confines connects contains continues converts could creates deals decides
    declares decodes defines deletes delivers describes did do does draws drives drops encodes ensures examines
    exchanges executes expects fetches fills finds finishes fires fits flushes follows forecasts forgets forks forms
    forwards frees gathers generates gets gives goes grants guards had handles hands has have helps hides holds
    imposes installs introduces is joins judges keeps kills knows learns leaves lets listens loads locks looks
    lowers made makes may measures merges might migrates moves must narrows notifies obeys opens owns packs parses
    passes pays pings prepares prints probes produces promotes proposes protects prunes publishes pulls puts raises
    reaches reads receives reclaims redacts redirects refines refuses registers rejects releases remembers removes
    renders renews repeats replaces replicates reschedules resolves responds restarts restores returns says seals
    searches selects sends separates serves sets settles shall ships should shows skips sleeps solves speaks spends
    splits stamps stands stays strips suggests supervises switches takes tells ticks translates traps tries turns
    understands unites updates uses validates verifies waits wakes walks wants warns was watches weighs were will
    works would wraps writes yields
"""
_VERBS_AND_NOUNS = """
    checks controls copies counts edits ends exports filters imports lists marks names notes orders places plans
    queues reports runs signals starts stops stores
"""
VERBS = frozenset(_VERBS.split())
VERBS_AT_THE_FRONT = VERBS.union(_VERBS_AND_NOUNS.split())
_END = re.compile(r"(?<=[.?!])(?:\s|$)")
_WORD = re.compile(r"[a-z']+")
# A caller, an operator and a user are "they".
PRONOUNS = re.compile(r"\b(?:he|she|his|her|hers|him|himself|herself)\b", re.IGNORECASE)


@cache
def docstrings(path: Path) -> list[tuple[int, str]]:
    """Line and text of each docstring of a module, also of attributes: a string behind an assignment."""
    found: list[tuple[int, str]] = []
    for node in nodes(path):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value
                if isinstance(value.value, str):
                    found.append((value.lineno, value.value))
    return found


@each(MODULES)
def test_docstrings_say_what_is_returned_or_done(path: Path) -> None:
    riddles = RIDDLES_OF_CLIENTS if name_of(path).startswith(CLIENTS) else RIDDLES
    wrong = [
        f"{name_of(path)}:{line}: {text.split()[0]} ..." for line, text in docstrings(path) if riddle(text, riddles)
    ]
    assert not wrong, f"say first what it returns or does: {wrong}"


@each([path for path in MODULES if not name_of(path).startswith(RIM)])
def test_modules_begin_with_a_sentence(path: Path) -> None:
    text = ast.get_docstring(parsed(path))
    assert text is None or has_verb(text), f"say in a sentence what the module does: {text.splitlines()[0]}"


@each(MODULES)
def test_people_are_they(path: Path) -> None:
    wrong = [f"{name_of(path)}:{line}" for line, text in docstrings(path) if PRONOUNS.search(text)]
    assert not wrong


def riddle(text: str, riddles: frozenset[str] = RIDDLES) -> bool:
    return text.split(maxsplit=1)[0].rstrip(",:") in riddles if text.strip() else False


def has_verb(text: str) -> bool:
    """Returns whether the first sentence seems to have a finite verb: by a list, which new verbs are added to."""
    first, *words = _WORD.findall(_END.split(text.strip(), maxsplit=1)[0].lower())
    return first in VERBS_AT_THE_FRONT or not VERBS.isdisjoint(words)


def test_the_style_test_can_fail(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(
        '"""Fine."""\nx = 1\n"""Of x."""\n\n\ndef f() -> int:\n    """What it is, as he said."""\n    return 1\n'
    )
    assert [riddle(text) for _, text in docstrings(module)] == [False, True, True]
    assert [bool(PRONOUNS.search(text)) for _, text in docstrings(module)] == [False, False, True]
    assert not has_verb("The runs of jobs. This is about them.")
    assert has_verb("Runs jobs. Fine.")
    assert has_verb("The rows that are new.")
