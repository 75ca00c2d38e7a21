"""Shows how far long work is: one line on stderr that is drawn again and again on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import click

from raftsched.system.clock import SystemClock

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_QUIET = "raftsched.no-progress"
_DRAW_S = 0.1
_BAR = 24  # characters


def _be_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_QUIET] = value


def progress_option(function: _F) -> _F:
    return click.option(
        "--no-progress", is_flag=True, expose_value=False, callback=_be_quiet, help="Draw no progress."
    )(function)


@contextmanager
def progress(items: Sequence[_T], what: str) -> Iterator[Iterator[_T]]:
    """The items one by one, and how many there were."""
    with Progress(what, len(items)) as line:

        def each() -> Iterator[_T]:
            for item in items:
                yield item
                line.add()

        yield each()


class Progress:
    """`with Progress("backup", total) as progress: progress.at(done)`. The line goes when it ends."""

    def __init__(self, what: str, total: int | None = None, *, sizes: bool = False) -> None:
        """`sizes`: what is counted are bytes."""
        context = click.get_current_context(silent=True)
        self.shown = sys.stderr.isatty() and not (context is not None and context.meta.get(_QUIET))
        self.total = total
        self._what = what
        self._sizes = sizes
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._drawn = float("-inf")
        self._done = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        if self._drawn > float("-inf"):
            click.echo("\r\033[K", nl=False, err=True)

    def add(self, done: int = 1) -> None:
        self.at(self._done + done)

    def at(self, done: int, more: str = "") -> None:
        """`more`: what else is to be said now."""
        self._done = done
        now = self._clock.monotonic()
        if not self.shown or now - self._drawn < _DRAW_S:
            return
        import shutil

        self._drawn = now
        line = self._line(done, now - self._began) + (f", {more}" if more else "")
        click.echo(f"\r{line[: shutil.get_terminal_size().columns - 1]}\033[K", nl=False, err=True)

    def _line(self, done: int, seconds: float) -> str:
        of = f" of {self._text(self.total)}" if self.total is not None else ""
        rate = f", {self._text(done / seconds)}/s" if seconds > 1 else ""
        bar = ""
        if self.total:
            part = min(1.0, done / self.total)
            full = round(part * _BAR)
            bar = f" [{'#' * full}{'.' * (_BAR - full)}] {part:4.0%} "
        return f"{self._what}:{bar} {self._text(done)}{of}{rate}"

    def _text(self, count: float) -> str:
        if not self._sizes:
            return f"{count:,.0f}"
        from raftsched.quantities import size_text

        return size_text(count)
