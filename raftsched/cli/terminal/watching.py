"""`--watch`: the same command again and again, in place on a terminal, one block after the other elsewhere."""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])
EVERY_S = 2.0
_TOGETHER_S = 0.1  # events come together
_SCREEN = "\033[?1049h\033[?25l"  # the terminal's other screen, no cursor
_BACK = "\033[?25h\033[?1049l"


def watchable(function: _F, news: Callable[..., Mapping[str, Any]] | None = None) -> _F:
    """Adds --watch to a command that prints what a Client, its first argument, answers. Goes directly below `remote`.

    Ctrl-C is how it is meant to end: exit code 0. While no node answers it says so, and goes on. `news`: given the
    arguments of the command, the query for the events that it should look again at; so many seconds after the last
    look it does in any case.
    """

    @click.option("-w", "--watch", is_flag=True, help="Again and again, until Ctrl-C.")
    @click.option(
        "--interval", metavar="SECONDS", type=click.FloatRange(0.1, 3600), help=f"Of --watch.  [default: {EVERY_S:g}]"
    )
    @functools.wraps(function)
    def wrapped(client: Client, *args: Any, watch: bool, interval: float | None, **kwargs: Any) -> None:
        if not watch:
            if interval is not None:
                raise click.UsageError("--interval goes with --watch")
            function(client, *args, **kwargs)
            return

        def show() -> None:
            function(client, *args, **kwargs)

        pause = pause_s if news is None else _pause_by_events(client, news(client, *args, **kwargs))
        _repeat(show, interval or EVERY_S, pause)

    return wrapped  # type: ignore[return-value]


def pause_s(seconds: float) -> None:
    """Waits between two looks. In tests it ends them."""
    import time

    time.sleep(seconds)


def _pause_by_events(client: Client, query: Mapping[str, Any]) -> Callable[[float], None]:
    """Ends at the next event as well. Without events (they can be turned off) it is like `pause_s`."""
    import threading

    from raftsched.client.errors import ClientError
    from raftsched.client.event_stream import watch
    from raftsched.client.http import Client
    from raftsched.surface.plain import events

    again = threading.Event()

    def listen() -> None:
        try:
            for _ in watch(
                Client(client.servers, token=client.token, trust=client.trust), events.LIST, {**query, "follow": True}
            ):
                again.set()
        except ClientError:
            pass  # what is shown says it, if it lasts

    threading.Thread(target=listen, name="events", daemon=True).start()

    def pause(seconds: float) -> None:
        if again.wait(seconds):
            pause_s(_TOGETHER_S)
        again.clear()

    return pause


def _repeat(show: Callable[[], None], every_s: float, pause: Callable[[float], None]) -> None:
    in_place = sys.stdout.isatty()
    last = ""
    try:
        if in_place:
            sys.stdout.write(_SCREEN)
        first = True
        while True:
            last = _picture(show, in_place)
            if in_place:
                _draw(last, every_s)
            else:
                click.echo(last if first else f"\n{last}", nl=False)
            first = False
            sys.stdout.flush()
            pause(every_s)
    except KeyboardInterrupt:
        pass
    finally:
        if in_place:  # what was seen last stays
            sys.stdout.write(_BACK + last)
            sys.stdout.flush()


class _Picture(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.takes_notices = terminal  # stderr is the same screen

    def isatty(self) -> bool:
        return self._terminal


def _picture(show: Callable[[], None], terminal: bool) -> str:
    from raftsched.client.errors import ClientError

    picture = _Picture(terminal)
    try:
        with redirect_stdout(picture):
            show()
    except ClientError as error:
        if error.code != "unreachable" and error.status != 503:
            raise
        picture.write(f"raftsched: {error.detail}\n")
    return picture.getvalue()


def _draw(picture: str, every_s: float) -> None:
    """Line over line, so that nothing flickers; what does not fit on the screen is left out."""
    import shutil

    from raftsched.system.clock import SystemClock

    columns, rows = shutil.get_terminal_size()
    seconds = SystemClock().wall_ms() // 1000
    at = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"
    head = f"{at}, every {every_s:g} s; Ctrl-C ends"[: columns - 1]
    lines = picture.splitlines()
    if len(lines) > rows - 2:
        lines = [*lines[: rows - 3], f"... {len(lines) - rows + 3} more lines"]
    dim = ("", "") if os.environ.get("NO_COLOR") else ("\033[2m", "\033[m")
    # A line is erased before it is drawn: behind one of the full width the cursor still stands on its last character.
    drawn = "".join(f"\033[K{line}\r\n" for line in (f"{dim[0]}{head}{dim[1]}", *lines))
    sys.stdout.write(f"\033[H\033[?7l{drawn}\033[J\033[?7h")
