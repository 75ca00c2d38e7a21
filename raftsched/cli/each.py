"""The same done to several things that were named, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

from raftsched.cli.failures import failure


def each(refs: Sequence[str], act: Callable[[str], None]) -> None:
    """Acts on all of them, also after one that fails. Ends the command with the exit code of the first failure."""
    code = each_tried(refs, act)
    if code:
        sys.exit(code)


def each_tried(refs: Sequence[str], act: Callable[[str], None]) -> int:
    """Acts on all of them, also after one that fails. Returns the exit code of the first failure; raises it where there
    is one only. When no node answers, the rest is not tried."""
    from raftsched.cli.near import with_near
    from raftsched.client.errors import ClientError

    if len(refs) == 1:
        act(refs[0])
        return 0
    code = 0
    for n, ref in enumerate(refs, 1):
        try:
            act(ref)
        except (ClientError, click.UsageError) as e:
            failed = e if isinstance(e, click.UsageError) else failure(with_near(e, click.get_current_context()))
            code = code or failed.exit_code
            alone = isinstance(e, ClientError) and e.code == "unreachable"
            about = "" if alone or repr(ref) in failed.message else f"{ref}: "
            click.echo(f"raftsched: {about}{failed.message}", err=True)
            if alone and refs[n:]:
                click.echo(f"raftsched: not tried: {' '.join(refs[n:])}", err=True)
            if alone:
                break
    return code
