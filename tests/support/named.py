"""What pages name: commands with their options, operations of the API, variables, names of the package. And whether
there is such a thing."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import click

import raftsched
from raftsched.api.routes import ROUTES
from raftsched.apscheduler.__main__ import main as export_of_apscheduler
from raftsched.cli.lazy import Listing
from raftsched.cli.main import cli

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)((?: {4}\S.*\n)+)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_OPERATION = re.compile(r"\b(GET|HEAD|POST|PUT|PATCH|DELETE) (/[^\s`?\"')|,;]*)")
_ADDRESS = re.compile(r"https?://[^/\s\"']+(/[^\s\"'?]*)?")
_ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&", "...", "--", "\\"}
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|\.\.\.|…")


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page."""

    language: str
    text: str


def fences(text: str) -> list[Fence]:
    return [
        Fence(match[2], re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE)) for match in _FENCE.finditer(text)
    ]


def prose(text: str) -> str:
    """Returns a page without its fenced blocks, on one line for each paragraph."""
    return re.sub(r"(?<!\n)\n(?![\n|])", " ", _FENCE.sub("\n", text))


def shell_lines(text: str) -> Iterator[str]:
    """Yields what a page says to type: lines of its blocks, those that go on as one, and code within the text."""
    blocks = [fence.text for fence in fences(text) if fence.language in ("", "sh", "bash")]
    blocks += [
        re.sub("^    ", "", match[1], flags=re.MULTILINE) for match in _INDENTED.finditer(_FENCE.sub("\n", text))
    ]
    for block in blocks:
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    for match in _CODE.finditer(prose(text)):
        yield match[1].replace("\\|", "|")


def commands(text: str) -> Iterator[str]:
    """Yields the commands of `raftsched` that a page names, also those within a line of others, and in containers."""
    for line in map(_in_a_row, shell_lines(text)):
        for match in re.finditer(r"(?:^|[|;&]\s*|\bdo |\bexec \S+ (?:-- )?)(raftsched [^|;&)>]*)", line.strip()):
            yield match[1].strip()
        for match in re.finditer(r"raftsched:local ([a-z-][^|;&)>]*)", line):  # an image, which begins so
            yield f"raftsched {match[1].strip()}"


def _in_a_row(line: str) -> str:
    """Returns a line with X for each command within a command, which then follows."""
    inner = re.search(r"\$\(([^()]*)\)", line)
    return line if inner is None else _in_a_row(f"{line[: inner.start()]}X{line[inner.end() :]} ; {inner[1]}")


def wrong_in_command(command: str) -> str | None:
    """Returns what there is not of a command, None when all of it exists."""
    try:
        words = shlex.split(command, comments=True)[1:]
    except ValueError:  # a quote that ends on another line
        words = re.sub(r"['\"].*", "", command).split()[1:]
    found: click.Command = cli
    context = click.Context(cli, info_name="raftsched")
    at = 0
    while isinstance(found, click.Group):
        while at < len(words) and words[at].startswith("-"):
            if isinstance(found, Listing) and not _has(found, words[at]):
                words.insert(at, "list")
                break
            if not _has(found, words[at]):
                return f"{context.command_path} has no option {words[at]}"
            at += 1 if _is_flag(found, words[at]) else 2
        if at >= len(words) or words[at] in _ENDS or _PLACEHOLDER.fullmatch(words[at]):
            return None
        below = found.get_command(context, words[at])
        if below is None:
            return f"there is no {context.command_path} {words[at]}"
        found, context, at = below, click.Context(below, context, words[at]), at + 1
    for word in words[at:]:
        if word in _ENDS:
            break
        if re.fullmatch(r"-[a-zA-Z]|--[a-z][a-z-]*(=.*)?", word) and not _has(found, word.partition("=")[0]):
            return f"{context.command_path} has no option {word}"
    return None


def _has(command: click.Command, option: str) -> bool:
    names = {"-h", "--help"}.union(*((*p.opts, *p.secondary_opts) for p in command.params))
    return option in names


def _is_flag(command: click.Command, option: str) -> bool:
    flags = (p for p in command.params if isinstance(p, click.Option) and p.is_flag)
    return option in ("-h", "--help") or any(option in (*p.opts, *p.secondary_opts) for p in flags)


def operations(text: str) -> Iterator[tuple[str, str]]:
    """Yields method and path of each operation that a page names, in words or by curl."""
    for match in _OPERATION.finditer(_FENCE.sub("\n", text)):
        if match[2].startswith(("/v1", "/livez", "/readyz", "/metrics", "/openapi", "/docs")):
            yield match[1], match[2].rstrip(".:")
    for line in shell_lines(text):
        for command in re.findall(r"\bcurl [^|]*", re.sub(r"\$\([^()]*\)", "X", line)):
            method = re.search(r"-X ?([A-Z]+)", command)
            sends = re.search(r" (-d|--data\S*) ", command)
            for address in _ADDRESS.finditer(command):
                if (
                    re.search(r"(127\.0\.0\.1|localhost|10\.0\.0\.\d|n\d[.\w]*):740\d|\$SERVER", address[0])
                    and address[1]
                ):
                    yield method[1] if method else "POST" if sends else "GET", address[1]


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    found = []
    for route in ROUTES:
        path = re.sub(r"\\\{.*?\\\}", r"[^/]+", re.escape(re.sub(r":[^}/]*\}", "}", route.path)))
        found.append((route.method, re.compile(path)))
    return found


def options_said(text: str) -> set[str]:
    """Returns the options that stand alone as code within a page."""
    return {match[1] for code in _CODE.findall(prose(text)) if (match := re.match(r"(--[a-z][a-z-]+)\b", code))}


def options_of_commands() -> set[str]:
    """Returns all options of all commands."""

    def of(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from of(command.get_command(context, name) or click.Command(name))

    return {*of(cli), *of(export_of_apscheduler)}


def is_operation(method: str, path: str) -> bool:
    wanted = "GET" if method == "HEAD" else method
    return any(wanted == known and pattern.fullmatch(path) for known, pattern in _patterns())


def wrong_in_python(text: str) -> str | None:
    """Returns what there is not of the package in a program, None when all that it names exists."""
    for node in ast.walk(compile(text, "example", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "raftsched":
            names, module = [node.attr], raftsched
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "raftsched":
            names, module = [alias.name for alias in node.names], __import__(str(node.module), fromlist=["*"])
        else:
            continue
        for name in names:
            if not hasattr(module, name):
                return f"{module.__name__} has no {name}"
    return None
