"""`raftsched completion`."""

from __future__ import annotations

import os

import click

from raftsched.cli.lazy import COMPLETE, Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the script that completes commands, options and names in SHELL (default: yours).

    Names of jobs, runs, queues and the like are those that the cluster has.

    \b
    bash:  raftsched completion bash > ~/.local/share/bash-completion/completions/raftsched
    zsh:   raftsched completion zsh > "${fpath[1]}/_raftsched"
    fish:  raftsched completion fish > ~/.config/fish/completions/raftsched.fish
    """
    from click.shell_completion import get_completion_class

    from raftsched.cli.completing import use_own_classes

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    use_own_classes()
    found = get_completion_class(name) if name in ("bash", "zsh", "fish") else None
    if found is None:
        raise click.UsageError("say which shell: raftsched completion bash, zsh or fish")
    click.echo(found(ctx.find_root().command, {}, "raftsched", COMPLETE).source())
