"""ExecStart= and Environment= as systemd.service(5) and systemd.exec(5) have them: quotes, escapes, prefixes, `$NAME`,
and specifiers such as %i."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from raftsched.importers.foreign import Unmapped

PREFIXES = "@-:+!|"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"',
            "'": "'", "s": " "}  # fmt: skip
_NUMBERED = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})", re.ASCII)
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_ALONE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_TMP, _VAR_TMP = "/tmp", "/var/tmp"  # nosec B108
_TEMPORARY = {"T": _TMP, "V": _VAR_TMP}
_SPECIFIER = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """`words`: the program, which `argv0` may call otherwise, and its arguments."""

    words: list[str]
    argv0: str | None
    ignore_failure: bool
    expand: bool  # variables in it stand for their values
    privileged: str  # + or !, where it was said


class Word(NamedTuple):
    text: str
    quoted: bool


def split_words(text: str, at: str) -> list[Word]:
    """Words between spaces; quotes keep spaces together, a backslash escapes as in C. Raises Unmapped."""
    found: list[Word] = []
    current: list[str] | None = None
    quote = ""
    quoted = False
    i = 0
    while i < len(text):
        c = text[i]
        if c == "\\" and i + 1 < len(text):
            char, i = _escaped(text, i + 1, at)
            current = [*(current or []), char]
            continue
        if quote:
            if c == quote:
                quote = ""
            else:
                assert current is not None
                current.append(c)
        elif c in "\"'" and current is None:
            current, quote, quoted = [], c, True
        elif c in "\"'":
            quote = c
        elif c.isspace():
            if current is not None:
                found.append(Word("".join(current), quoted))
            current, quoted = None, False
        else:
            current = current if current is not None else []
            current.append(c)
        i += 1
    if quote:
        raise Unmapped(f"{at} has a quote {quote} that is not closed")
    if current is not None:
        found.append(Word("".join(current), quoted))
    return found


def _escaped(text: str, i: int, at: str) -> tuple[str, int]:
    """(the character, where the text goes on) behind a backslash."""
    if text[i] in _ESCAPES:
        return _ESCAPES[text[i]], i + 1
    number = _NUMBERED.match(text, i)
    if number is None:
        return "\\" + text[i], i + 1
    code = int(number[2], 8) if number[2] else int(number[1] or number[3] or number[4], 16)
    if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise Unmapped(f"{at} has an escape for character {code}, which there is not")
    return chr(code), number.end()


def read_commands(line: str, at: str, resolve: Callable[[str], str]) -> list[Command]:
    """The commands of one ExecStart= line: a word `;` stands between several. `resolve`: replaces specifiers.

    Raises Unmapped.
    """
    groups: list[list[str]] = [[]]
    for word in split_words(_keep_semicolons(line), at):
        if word.text == ";" and not word.quoted:
            groups.append([])
        else:
            groups[-1].append(word.text.replace(_SEMICOLON, ";"))
    return [_command([resolve(word) for word in words], at) for words in groups if words]


_SEMICOLON = "\ue000"  # stands for `\;`, a word that is a semicolon


def _keep_semicolons(line: str) -> str:
    return re.sub(r"(?<!\S)\\;(?!\S)", _SEMICOLON, line)


def _command(words: list[str], at: str) -> Command:
    first = words[0]
    prefixes = first[: len(first) - len(first.lstrip(PREFIXES))]
    if "|" in prefixes:
        raise Unmapped(f"{at} starts {first} in a login shell (|), which there is not here; write sh -lc '...'")
    program = first[len(prefixes) :]
    if not program:
        raise Unmapped(f"{at} names no program")
    argv0 = None
    rest = words[1:]
    if "@" in prefixes:
        if not rest:
            raise Unmapped(f"{at} has the prefix @, and no name for the program behind it")
        argv0, *rest = rest
    privileged = "".join(c for c in prefixes if c in "+!")
    return Command([program, *rest], argv0, "-" in prefixes, ":" not in prefixes, privileged)


def unknown_variables(command: Command, env: Mapping[str, str]) -> list[str]:
    """Names that the command refers to and that Environment= does not set."""
    if not command.expand:
        return []
    found = [one or two for word in command.words[1:] for one, two in _VARIABLE.findall(word)]
    return [name for name in dict.fromkeys(found) if name and name not in env]


def as_exec(command: Command, env: Mapping[str, str]) -> list[str]:
    """The program and its arguments, with variables replaced: `$NAME` as a word becomes its words."""
    if not command.expand:
        return list(command.words)
    found = command.words[:1]
    for word in command.words[1:]:
        alone = _ALONE.fullmatch(word)
        if alone:
            found += env[alone[1]].split()
        else:
            found.append(_VARIABLE.sub(lambda m: "$" if m[0] == "$$" else env[m[1] or m[2]], word))
    return found


def as_shell(command: Command) -> str:
    """The command for sh, which looks variables up when it runs. Globbing has to be off (`set -f`)."""
    if not command.expand:
        return shlex.join(command.words)
    found = [shlex.quote(command.words[0])]
    for word in command.words[1:]:
        if _ALONE.fullmatch(word):
            found.append(word)
            continue
        parts = []
        end = 0
        for match in _VARIABLE.finditer(word):
            if match.start() > end:
                parts.append(shlex.quote(word[end : match.start()]))
            parts.append("'$'" if match[0] == "$$" else f'"${{{match[1] or match[2]}}}"')
            end = match.end()
        if end < len(word) or not word:
            parts.append(shlex.quote(word[end:]))
        found.append("".join(parts))
    return " ".join(found)


@dataclass
class Specifiers:
    """The values of %-specifiers of one unit; what is unknown stays, and is told."""

    unit: str  # backup@home.service
    user_home: str | None  # None: of a user's manager whose home the path does not tell
    unknown: set[str]

    def resolve(self, text: str) -> str:
        """Returns the text with what is known in place of %x."""

        def value(found: re.Match[str]) -> str:
            known = self._values().get(found[1])
            if known is None:
                self.unknown.add(found[0])
                return found[0]
            return known

        return _SPECIFIER.sub(value, text)

    def _values(self) -> dict[str, str | None]:
        stem, _, _ = self.unit.rpartition(".")
        prefix, _, instance = stem.partition("@")
        system = self.user_home == "/root"
        home = self.user_home
        below = {} if system else {"C": "/.cache", "E": "/.config", "S": "/.local/state", "L": "/.local/state/log"}
        found: dict[str, str | None] = {
            "%": "%", "n": self.unit, "N": stem, "p": prefix, "P": unescape(prefix), "i": instance,
            "I": unescape(instance), "j": prefix.rpartition("-")[2], "J": unescape(prefix.rpartition("-")[2]),
            "f": "/" + unescape(instance or prefix).lstrip("/"), "h": home, **_TEMPORARY,
        }  # fmt: skip
        if system:
            found |= {"t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "E": "/etc", "u": "root",
                      "U": "0", "g": "root", "G": "0", "s": "/bin/sh"}  # fmt: skip
        else:
            found |= {name: None if home is None else home + path for name, path in below.items()}
        return found


def unescape(text: str) -> str:
    r"""systemd-escape the other way round: `-` is a slash, `\x2d` a character."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text.replace("-", "/"))
