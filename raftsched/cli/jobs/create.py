"""`raftsched jobs create`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.jobs.fields import exactly_one, retry_of, set_field
from raftsched.cli.jobs.generated import OPTIONS, SAME
from raftsched.cli.jobs.preview import print_times
from raftsched.cli.jobs.warned import print_warnings
from raftsched.cli.jobs.when import when_of, when_options
from raftsched.cli.lazy import OUTPUT, Command
from raftsched.cli.remote import by_name, format_option, job_ref, read_json, remote, source_name
from raftsched.cli.terminal.output import print_for_programs
from raftsched.importers.documents import read_jobs
from raftsched.surface.plain import jobs

if TYPE_CHECKING:
    from raftsched.client.http import Client


def pairs(name: str, items: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE options to an object. Raises a usage error."""
    found: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--{name} {item!r} has no =; write --{name} key=value")
        found[key] = value
    return found


# Its options, by their parameters' names, in the sections and in the order of its help.
HELP: Mapping[str, tuple[str, ...]] = {
    "Usual": ("namespace", "cron", "every", "in_", "shell", "python", "call", "params", "timeout", "retry"),
    "When": (
        *("at", "rrule", "timezone", "manual", "after", "after_on", "after_any", "pass_results"),
        *("calendar", "calendar_action", "max_runs", "suspended"),
    ),
    "What": ("http", "method", "env", "cwd", "user", "fresh", "template", "file", "settings"),
    "Limits": (
        *("grace", "limit", "expires", "overlap", "max_concurrency", "concurrency_key", "concurrency_key_max"),
        *("concurrency_key_rate", "queue", "priority"),
    ),
    "Retries, by what it ends with": ("on_exit", "on_status"),
    "Conditions": ("if_path", "if_http", "if_succeeded", "conditions_timeout"),
    "Who, and who is told": ("owner", "description", "label", "notify"),
    OUTPUT: ("dry_run", "fmt"),
}


class _WithCommand(Command):
    """Everything after `--` is the command to run, never the name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sections = {name: title for title, names in HELP.items() for name in names}
        order = list(sections)
        for parameter in self.params:
            if parameter.name in sections:
                parameter.section = sections[parameter.name]  # type: ignore[attr-defined]
        self.params.sort(key=lambda p: order.index(str(p.name)) if p.name in sections else len(order))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        split = args.index("--") if "--" in args else len(args)
        ctx.obj = args[split + 1 :]
        return super().parse_args(ctx, args[:split])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def field_options(command: Any) -> Any:
    """Adds the options that are fields of a job."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command(cls=_WithCommand)
@click.argument("name", required=False)
@click.option("-f", "--file", "file", type=click.File("rb"), help="The job as YAML or JSON ('-': stdin).")
@click.option("--namespace", "-N", default="default", show_default=True, metavar="NS")
@when_options
@click.option("--shell", metavar="TEXT", help="What: sh -c TEXT.")
@click.option("--python", metavar="PKG.MOD:FUNC", help="What: a function, called with --params as keywords.")
@click.option("--http", metavar="URL", help="A request to URL.")
@click.option("--method", metavar="METHOD", help="Of --http.  [default: the server's]")
@click.option("--params", metavar="JSON", help="Parameters, an object.")
@click.option("--env", metavar="KEY=VALUE", multiple=True, help="Environment of the command; may be repeated.")
@click.option("--cwd", metavar="DIR", help="Directory of the command.")
@click.option(
    "--limit", metavar="NAME=VALUE", multiple=True, help="memory=512MiB, cpu=60s or open_files=1024; may be repeated."
)
@click.option("--fresh", is_flag=True, help="A process of its own for each run of --python or --call.")
@field_options
@click.option("--template", is_flag=True, help="Fill in {due}, {due:%F}, {params.NAME} and others; see above.")
@click.option("--call", metavar="NAME", help="What: a handler that is registered by name.")
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True, help="Any other field of the job; see above.")
@click.option("--suspended", is_flag=True, help="Do not schedule it yet; see jobs resume.")
@click.option("--dry-run", is_flag=True, help="Make nothing; say whether it could be made, and when it would run.")
@format_option
@click.pass_obj
@remote
def create(
    client: Client, /, command: list[str], fmt: str, file: Any, name: str | None, dry_run: bool, **options: Any
) -> None:
    """Create a job: when it is due, and what it does.

    A name makes this safe to repeat: the same job again is no error, another one under the same name is refused.

    Several times (--cron, --rrule, --every, --at, --in) make one job that is due at all of them; each has an id before
    it. --timezone, --calendar and its action are those of all that know them.

    --retry takes delays, or "exponential" with first=, factor=, max= and attempts= where they differ from 1s, 2, 1h and
    5; jitter= (percent) and on= (failed or timed_out) go with both. --set gives any field of a job that has no option
    of its own, by its path and as JSON (or as text, when it is none); it changes what -f holds, too.

    \b
    --template fills in arguments, --env and --http when a run starts: {due} (or {due:%Y-%m-%d}, as strftime has it),
    {params.NAME}, {attempt}, {token}, {job}, {namespace}, {instance}. {{ and }} are braces.

    \b
      raftsched jobs create tick --every 10s --shell 'date; hostname'
      raftsched jobs create report -N billing --cron '0 2 * * 1-5' -z Europe/Madrid -- ./report.sh --month
      raftsched jobs create shop --cron weekdays='0 7 * * 1-5' --cron weekend='0 10 * * SAT,SUN' --shell ./open.sh
      raftsched jobs create --in 30m --http https://example.com/hook --method POST --retry 5s,1m
      raftsched jobs create load --every 1h --if-path '/data/in/*.csv' --if-succeeded export=2h -- ./load.sh
      raftsched jobs create publish --after load --after check --pass-results -- ./publish.sh
      raftsched jobs create greet --manual --python raftsched.samples:greet --params '{"name": "you"}'
      raftsched jobs create poll --every 1m --retry exponential,max=10m,attempts=8,jitter=20 --shell ./poll.sh
      raftsched jobs create sync --manual --params '{"tenant": "acme"}' --concurrency-key '{params.tenant}' \\
        --concurrency-key-max 2 -- ./sync.sh
      raftsched jobs create disk --manual --set placement.labels.disk=ssd --set misfire.policy=all -- ./disk.sh
      raftsched jobs create days --cron '0 3 * * *' --template -- ./report.sh --day '{due:%Y-%m-%d}'
      raftsched jobs create -f job.json --set name=copy --set trigger.jitter=30s
    """
    settings = options.pop("settings")
    if file is None:
        job = _from_options(name, command, options)
    else:
        _with_file_alone(name, command)
        job = _read_one(file)
    for setting in settings:
        set_field(job, setting)
    if dry_run:
        checked = client.post(jobs.CHECK_NEW, job)
        print_warnings([(str(job.get("name") or "the job"), checked)])
        if fmt == "table":
            click.echo("it exists already" if checked["result"] == "unchanged" else "it can be created")
        print_times(checked, fmt)
        return
    found = client.post(jobs.CREATE, job)
    print_warnings([(job_ref(found), found)])
    if not print_for_programs(fmt, found, job_ref(found)):
        due = found.get("next_fire_at")
        click.echo(f"created: {job_ref(found)} ({found['id']})" + (f", next {due}" if due else f", {found['state']}"))


def _from_options(name: str | None, command: list[str], o: dict[str, Any]) -> dict[str, Any]:
    given = {**{kind: o[kind] for kind in ("shell", "python", "http", "call")}, "exec": command or None}
    try:
        handler = exactly_one("what the job runs", given)
    except click.UsageError as e:
        raise click.UsageError(e.message.replace("--exec", "-- COMMAND")) from None
    if "http" in handler:
        handler["http"] = {"url": o["http"], **({"method": o["method"].upper()} if o["method"] else {})}
    limits: dict[str, Any] = pairs("limit", o["limit"])
    if limits.get("open_files", "").isdecimal():
        limits["open_files"] = int(limits["open_files"])
    around = {"env": pairs("env", o["env"]), "cwd": o["cwd"], "limits": limits}
    for key, value in {**around, "fresh": o["fresh"], "template": o["template"]}.items():
        if value:
            handler[key] = value
    job: dict[str, Any] = {"namespace": o["namespace"], **when_of(o), "handler": handler}
    if name is not None:
        namespace, slash, rest = name.partition("/")
        if slash and names.NAMESPACE.allows(namespace) and names.JOB.allows(rest):
            raise click.UsageError(f"{name!r} is no name alone; say the namespace apart: {rest} -N {namespace}")
        by_name(o["namespace"], name)  # checked here, so that the message speaks of the argument
        job["name"] = name
    if o["params"] is not None:
        job["params"] = read_json(o["params"], "--params")
    if o["retry"]:
        job["retry"] = retry_of(o["retry"])
    if o["label"]:
        job["labels"] = pairs("label", o["label"])
    if o["notify"]:
        from raftsched.cli.jobs.notify_option import notify_of

        told = notify_of(o["notify"])
        job["notify"] = told[0] if len(told) == 1 else told
    outcomes = {"exit": pairs("on-exit", o["on_exit"]), "status": pairs("on-status", o["on_status"])}
    if any(outcomes.values()):
        job["outcomes"] = {kind: codes for kind, codes in outcomes.items() if codes}
    limits = _by_key(o)
    if limits:
        job["concurrency"] = limits
    conditions = _conditions(o)
    if conditions:
        job["conditions"] = conditions
    for key in SAME:
        if o[key] is not None:
            job[key] = o[key]
    if o["suspended"]:
        job["suspended"] = True
    return job


def _by_key(o: dict[str, Any]) -> dict[str, Any]:
    """The limits by key. What is missing of them the server says. Raises a usage error."""
    most = o["concurrency_key_max"]
    if most is not None and not (most.isascii() and most.isdigit() and len(most) < 10):
        raise click.UsageError(f"--concurrency-key-max {most!r} is not a number; write a whole number")
    limits = {"key": o["concurrency_key"], "max": None if most is None else int(most)}
    if o["concurrency_key_rate"] is not None:
        from raftsched.cli.resources.queues import read_rate

        limits["rate"] = read_rate(o["concurrency_key_rate"], "--concurrency-key-rate", "")
    return {name: value for name, value in limits.items() if value is not None}


def _conditions(o: dict[str, Any]) -> list[dict[str, str]]:
    """A job without a namespace is one of the new job's."""
    found = [{"path": path} for path in o["if_path"]] + [{"http": url} for url in o["if_http"]]
    for job, within in pairs("if-succeeded", o["if_succeeded"]).items():
        found.append({"job_succeeded": job if "/" in job else f"{o['namespace']}/{job}", "within": within})
    return found


def _with_file_alone(name: str | None, command: list[str]) -> None:
    """Refuses arguments and options that -f would ignore. Raises a usage error."""
    from click.core import ParameterSource

    context = click.get_current_context()
    fine = {"file", "fmt", "server", "settings", "name", "dry_run"}
    said = [name] if name else []
    for parameter in context.params:
        if parameter not in fine and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            said.append(f"--{parameter.replace('_', '-').rstrip('-')}")
    if command:
        said.append("-- ...")
    if said:
        raise click.UsageError(f"-f says the whole job; {' '.join(said)} would change nothing: use --set PATH=VALUE")


def _read_one(file: Any) -> dict[str, Any]:
    source = source_name(file)
    found = read_jobs(file.read(), source)
    if len(found) != 1:
        raise click.UsageError(f"{source} holds {len(found)} jobs; create takes one, 'jobs apply -f' takes many")
    return found[0].value
