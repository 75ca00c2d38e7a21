"""Gives the variables of a script short names, which saves a tenth of what would be sent.

Each function is a scope, with all that is declared anywhere in it. A variable gets a name that means nothing else where
it is used; one that has the name of another in a function around it shares its new name, so that blocks need not be
told apart. Names of classes, methods and properties stay, so that an error in the browser names methods of the source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, product
from string import ascii_letters, digits

from raftsched.ui.lexing import is_gap, tokens_of

_WORDS = frozenset(
    re.findall(
        r"\w+",
        "arguments as async await break case catch class const continue debugger default delete do else export extends "
        "false finally for from function get if import in instanceof let new null of return set static super switch "
        "this throw true try typeof undefined var void while with yield",
    )
)
_IS_NAME = re.compile(r"\#?[A-Za-z_$]")
_BEFORE_BLOCK = frozenset(("", ")", "=>", ";", "}", "else", "try", "finally", "do", "catch", "static"))
_MODIFIERS = frozenset(("static", "get", "set", "async", "*"))
_NO_FUNCTION = frozenset(("if", "for", "while", "switch", "catch", "await"))


@dataclass
class _Scope:
    """A function: its parameters and its body. `new`: the names that its variables get."""

    parent: _Scope | None
    declared: set[str] = field(default_factory=set)
    used: Counter[str] = field(default_factory=Counter)  # in it and in all functions within
    new: dict[str, str] = field(default_factory=dict)

    def named(self, name: str) -> str:
        """Returns the new name of what a name means here."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.new:
                return scope.new[name]
            scope = scope.parent
        return name


@dataclass
class _Open:
    """A bracket that is open. `kind`: "(", "[", "${", "block", "object", "class"; `scope`: what holds after it."""

    kind: str
    at: int
    scope: _Scope
    asks: int = 0  # ? of expressions `a ? b : c` that wait for their colon
    arrows: list[tuple[_Scope, int]] = field(default_factory=list)  # open bodies that are expressions: (outer, asks)


def shorter(script: str) -> str:
    """Returns the script with shorter names. It must have no labels, `case`, `var` or `eval`."""
    tokens = list(tokens_of(script))
    places = [at for at, word in enumerate(tokens) if not is_gap(word)]
    said = [tokens[at] for at in places]
    reader = _Reader(said)
    reader.read()
    for scope in reader.scopes:
        _choose(scope, reader.kept)
    private = _privates(said, reader.classes)
    for at, word in enumerate(said):
        found = reader.variables.get(at)
        if found is not None:
            scope, shorthand = found
            new = scope.named(word)
            if new != word:
                tokens[places[at]] = f"{word}: {new}" if shorthand else new
        elif at in private:
            tokens[places[at]] = private[at]
    return "".join(tokens)


def _choose(scope: _Scope, kept: set[str]) -> None:
    """Names the variables of a function, the most used ones first; those around it have their names by now."""
    own = {name for name in scope.declared - kept if not _is_declared(scope.parent, name)}
    taken = {scope.named(name) for name in scope.used if name not in own} | _WORDS
    free = (name for name in _short() if name not in taken)
    for name in sorted(own, key=lambda one: (-scope.used[one], one)):
        scope.new[name] = next(free)


def _is_declared(scope: _Scope | None, name: str) -> bool:
    while scope is not None:
        if name in scope.declared:
            return True
        scope = scope.parent
    return False


def _privates(said: list[str], classes: list[tuple[int, int]]) -> dict[int, str]:
    """Returns the new names of private members by their places, of each class for itself."""
    new: dict[int, str] = {}
    for begin, end in classes:
        found = Counter(word for word in said[begin:end] if word.startswith("#"))
        free = _short()
        names = {name: f"#{next(free)}" for name, _ in sorted(found.items(), key=lambda one: (-one[1], one[0]))}
        new |= {at: names[said[at]] for at in range(begin, end) if said[at] in names}
    return new


def _short() -> Iterator[str]:
    for size in count():
        for first, *rest in product(ascii_letters, *[ascii_letters + digits] * size):
            yield "".join((first, *rest))


class _Reader:
    """Reads which function each name is in, and what is declared where."""

    def __init__(self, said: list[str]) -> None:
        self.said = said
        self.scopes = [_Scope(None)]  # each after the one around it
        self.variables: dict[int, tuple[_Scope, bool]] = {}  # place -> (scope, whether it is a property, too: { name })
        self.kept: set[str] = set()  # names of classes
        self.classes: list[tuple[int, int]] = []  # places of the outermost ones
        self._open = [_Open("block", 0, self.scopes[0])]
        self._body: _Scope | None = None  # of a function whose brace comes
        self._class = False  # a class was said, whose brace comes

    def read(self) -> None:
        """Reads all of it."""
        for at, word in enumerate(self.said):
            top = self._open[-1]
            self._end_arrows(top, word)
            if word[-2:] == "${" or word in ("(", "[", "{"):
                if word[0] == "}":
                    self._open.pop()
                self._opened(at, word)
            elif word in (")", "]", "}") or word[0] == "}":
                self._closed(at)
            elif word == "?":
                top.asks += 1
            elif word == ":" and top.asks:
                top.asks -= 1
            elif word == "=>":
                self._arrow(at, top)
            elif _IS_NAME.match(word):
                self._name(at, word, top)
        for scope in reversed(self.scopes[1:]):
            assert scope.parent is not None
            scope.parent.used.update(scope.used)

    def _opened(self, at: int, word: str) -> None:
        before, top = self._at(at - 1), self._open[-1]
        kind, scope = word[-2:] if word[-2:] == "${" else word, top.scope
        if word == "{":
            is_block = before in _BEFORE_BLOCK or (before == "{" and top.kind == "block")
            kind = "class" if self._class else "block" if is_block else "object"
            self._class = False
            if self._body is not None and is_block:
                scope, self._body = self._body, None
        elif word == "(" and self._are_parameters(at):
            self.scopes.append(_Scope(scope))
            scope = self.scopes[-1]
            scope.declared |= self._pattern(at)
            self._body = None
        elif word in ("[", "(") and before in ("const", "let"):
            scope.declared |= self._pattern(at)
        if word == "{" and before in ("const", "let"):
            scope.declared |= self._pattern(at)
        self._open.append(_Open(kind, at, scope))

    def _closed(self, at: int) -> None:
        closed = self._open.pop()
        if closed.kind == "class" and not any(one.kind == "class" for one in self._open):
            self.classes.append((closed.at, at))
        if closed.scope is not self._open[-1].scope and closed.kind == "(":
            self._body = closed.scope  # they were parameters: the body comes

    def _end_arrows(self, top: _Open, word: str) -> None:
        ends = word in (",", ";", ")", "]") or word[0] == "}"
        while top.arrows and (ends or (word == ":" and top.asks == top.arrows[-1][1])):
            top.scope, top.asks = top.arrows.pop()

    def _arrow(self, at: int, top: _Open) -> None:
        if self._body is None:  # x => ...
            self.scopes.append(_Scope(top.scope))
            self._body = self.scopes[-1]
            self._body.declared.add(self._at(at - 1))
            self.variables[at - 1] = (self._body, False)
            top.scope.used[self._at(at - 1)] -= 1
            self._body.used[self._at(at - 1)] += 1
        if self._at(at + 1) != "{":
            top.arrows.append((top.scope, top.asks))
            top.scope, self._body = self._body, None

    def _name(self, at: int, word: str, top: _Open) -> None:
        before, after = self._at(at - 1), self._at(at + 1)
        if word == "class" and before != "." and after != ":":
            self._class = True
        if before == "class":
            self.kept.add(word)
        if word in _WORDS or word[0] == "#" or before in (".", "?.") or self._is_member(top.kind, before, after):
            return
        shorthand = top.kind == "object" and before in ("{", ",") and after in (",", "}", "=")
        self.variables[at] = (top.scope, shorthand)
        top.scope.used[word] += 1
        if before in ("const", "let", "function") or (before == "*" and self._at(at - 2) == "function"):
            top.scope.declared.add(word)

    def _is_member(self, kind: str, before: str, after: str) -> bool:
        if kind == "class":
            return before in ("{", ";", "}") or before in _MODIFIERS
        named = (before in ("{", ",") and after in (":", "(")) or (before in _MODIFIERS and after == "(")
        return kind == "object" and named

    def _are_parameters(self, at: int) -> bool:
        """Returns whether the bracket that opens here is of parameters: a body follows the one that closes it."""
        end = self._end(at)
        after = self._at(end + 1)
        return after == "=>" or (after == "{" and self._at(at - 1) not in _NO_FUNCTION)

    def _end(self, at: int) -> int:
        depth = 0
        for place in range(at, len(self.said)):
            word = self.said[place]
            depth += word in ("(", "[", "{") or (word[-2:] == "${" and word[0] != "}")
            depth -= word in (")", "]", "}") or (word[0] == "}" and word[-2:] != "${")
            if not depth:
                return place
        raise ValueError(f"a bracket is not closed: {''.join(self.said[at : at + 20])!r}")

    def _pattern(self, at: int) -> set[str]:
        """Returns the names that are declared by a pattern, or by parameters, that begin at a bracket."""
        found = set()
        place, end = at, self._end(at)
        while place < end:
            word = self.said[place]
            if word == "=":  # what follows is a value
                place += 1
                while place < end and self.said[place] not in (",", "]", "}", ")"):
                    place = self._end(place) + 1 if self._begins(place) else place + 1
                continue
            if _IS_NAME.match(word) and word not in _WORDS and self._at(place + 1) != ":":
                found.add(word)
            place += 1
        return found

    def _begins(self, place: int) -> bool:
        word = self.said[place]
        return word in ("(", "[", "{") or (word[-2:] == "${" and word[0] == "`")

    def _at(self, place: int) -> str:
        return self.said[place] if 0 <= place < len(self.said) else ""
