/** The first page: how the cluster is, at a glance. */

import { asOf, card, empty, heading, loading, problem, stateBadge, timeOf } from "../components/basics.js";
import { coarser, countsOf, lastDay, totals } from "../charts/heat-data.js";
import { heatStrip } from "../charts/heat.js";
import { Page, define } from "../core/element.js";
import { tellingLine } from "../core/errors.js";
import { duration, executorOf, moment, number } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { nodeCard, warnings } from "./cluster/parts.js";
import { namespacesOf, pickNamespace } from "./overview/namespace.js";

const LATE_MS = 1_000;
const STEP_MS = 300_000;
const HOUR_STEPS = 12;
const STEP_LOOK_MS = 20_000; // between two looks whether another step has begun
const HEAT_ROWS = [
  ["started", "Started", ""],
  ["succeeded", "Succeeded", "SUCCEEDED"],
  ["failed", "Failed", "FAILED,TIMED_OUT"],
  ["late", "Late", ""],
];
const WAIT_REASONS = {
  overlap: "Behind runs of their own job",
  no_eligible_node: "No node can take them",
  namespace_full: "At the limit of their namespace",
  namespace_rate: "At the rate of their namespace",
};
const NOW = ["jobs", "runs", "queues", "cluster"];

export class OverviewPage extends Page {
  #recent = null; // what was read last of the newest hour
  #meant = null; // the words of the count that is pointed at

  connected() {
    this.on(session, "change", () => this.update());
    const timer = setInterval(() => document.hidden || this.update(), STEP_LOOK_MS);
    this.signal.addEventListener("abort", () => clearInterval(timer));
    this.on(matchMedia("(max-width: 800px)"), "change", () => this.update());
  }

  render() {
    const namespace = this.query.get("namespace") || (session.who?.namespaces ? namespacesOf(session.who)[0] : null);
    const query = (parts) => new URLSearchParams({ ...parts, ...(namespace && { namespace }) });
    const now = this.watch(`/v1/stats/now?${query()}`, { on: NOW, every: 15_000 });
    const cluster = this.watch("/v1/cluster", { on: ["cluster"], every: 3_000 });
    return [
      heading("Overview", {
        actions: [
          pickNamespace(this, namespace),
          session.may("jobs_create") ? h("a", { class: "button primary", href: "/ui/jobs/new" }, "New job") : null,
        ],
      }),
      cluster.data ? warnings(cluster.data) : problem(cluster.error),
      asOf(now),
      this.#history(namespace, query, now.data),
      now.data ? glance(now.data, namespace) : now.error ? problem(now.error) : loading(),
      cluster.data ? strip(cluster.data) : null,
    ];
  }

  #history(namespace, query, now) {
    const whole = this.watch(`/v1/stats/minutes?${query({ step: "5m" })}`, { every: 120_000 });
    const since = Math.floor(Date.now() / STEP_MS) * STEP_MS - (HOUR_STEPS - 1) * STEP_MS;
    const path = `/v1/stats/minutes?${query({ step: "5m", from: new Date(since).toISOString() })}`;
    const recent = this.watch(path, { on: ["runs"], every: 60_000 });
    if (recent.data) this.#recent = recent.data;
    if (!whole.data || !this.#recent) return whole.error ? problem(whole.error) : loading();
    const day = lastDay(countsOf(whole.data), countsOf(this.#recent));
    const narrow = matchMedia("(max-width: 800px)").matches;
    return [
      tiles(totals(day, HOUR_STEPS), now, namespace),
      this.#strip(narrow ? coarser(day, 3) : day, totals(day), narrow, namespace),
    ];
  }

  #strip(day, sums, narrow, namespace) {
    const at = (index) => day.from + index * day.step;
    const clockText = (ms) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }).format(ms);
    const strip = heatStrip({
      from: day.from,
      step: day.step,
      ticks: narrow ? 4 : 8,
      label: "Runs of the last 24 hours",
      rows: HEAT_ROWS.map(([name, label]) => ({ name, label, values: day.counts[name], total: sums[name] })),
      hrefOf: (name, index) =>
        runsLink({ from: at(index), to: at(index + 1), late: name === "late", state: HEAT_ROWS.find((row) => row[0] === name)[2], namespace }),
      textOf: (name, index) => {
        const late = name === "late" ? `, the latest by ${duration(day.counts.late_max_ms[index])}` : "";
        return `${clockText(at(index))}–${clockText(at(index + 1))}: ${number(day.counts[name][index])} ${name}${late}`;
      },
      onMeant: (text) => {
        this.#meant = text;
        this.update();
      },
    });
    const more = ["restarted", "killed", "skipped"]
      .filter((name) => sums[name])
      .map((name) => `${number(sums[name])} ${name}`);
    return card("Last 24 hours", [
      strip,
      h(
        "p",
        { class: "heat-words muted" },
        this.#meant ?? [
          more.length ? `Also ${more.join(", ")}. ` : null,
          sums.late ? `The latest start was ${duration(sums.late_max_ms)} after its time. ` : null,
          "Late: started more than a second after the due time.",
        ],
      ),
    ]);
  }
}
define("rs-overview-page", OverviewPage);

function runsLink({ from, to, state, late, namespace }) {
  const query = new URLSearchParams(late ? { late } : {});
  if (from) query.set("from", new Date(from).toISOString());
  if (to) query.set("to", new Date(to).toISOString());
  if (state) query.set("state", state);
  if (namespace) query.set("namespace", namespace);
  return `/ui/runs?${query}`;
}

function tiles(hour, now, namespace) {
  const from = Math.floor(Date.now() / 60_000) * 60_000 - 3_600_000;
  const atLeast = (count, exact) => number(count) + (exact ? "" : "+");
  const tile = (title, value, href, { kind, note } = {}) =>
    h(
      "a",
      { key: title, class: ["tile", kind], href },
      h("span", { class: "tile-title" }, title),
      h("span", { class: "tile-value" }, value),
      h("span", { class: "muted" }, note ?? " "),
    );
  const inHour = { note: "last hour" };
  return h(
    "div",
    { class: "tiles" },
    tile(
      "Running",
      now ? atLeast(now.running, now.running_exact) : "–",
      runsLink({ state: "RUNNING,LAUNCHED", namespace }),
      { note: "now" },
    ),
    tile("Started", number(hour.started), runsLink({ from, namespace }), inHour),
    tile("Succeeded", number(hour.succeeded), runsLink({ from, state: "SUCCEEDED", namespace }), inHour),
    tile("Failed", number(hour.failed), runsLink({ from, state: "FAILED,TIMED_OUT", namespace }), {
      ...inHour,
      kind: hour.failed && "tile-bad",
    }),
    tile("Late", number(hour.late), runsLink({ from, late: true, namespace }), {
      kind: hour.late && "tile-warn",
      note: hour.late ? `up to ${duration(hour.late_max_ms)}` : "last hour",
    }),
    tile(
      "Dead letters",
      now ? atLeast(now.dead_letters, now.dead_letters_exact) : "–",
      `/ui/dead-letters${namespace ? `?${new URLSearchParams({ namespace })}` : ""}`,
      {
        kind: now?.dead_letters && "tile-bad",
        note: now?.dead_letters ? "to be looked at" : "none",
      },
    ),
  );
}

/** Returns the name of a job as a link; one without a name shows its id. */
function jobLink({ job_id: id, job, namespace }, within) {
  return h("a", { href: `/ui/jobs/${id}` }, job ?? id, within ? null : h("span", { class: "muted" }, ` ${namespace}`));
}

/** Returns when a job is due; that it is overdue where nothing has started it yet. */
function dueAt(iso) {
  const late = Date.now() - moment(iso) > LATE_MS;
  return late ? h("span", { class: "bad" }, "overdue, was due ", timeOf(iso)) : timeOf(iso);
}

function list(title, href, items, nothing) {
  return card(title, items.length ? h("ul", { class: "lines" }, items) : empty(...nothing), {
    actions: href ? h("a", { href }, "All") : null,
  });
}

function glance(now, namespace) {
  const row = (key, left, right, below) =>
    h(
      "li",
      { key },
      h("span", { class: "line-main" }, left),
      h("span", { class: "line-aside" }, right),
      below ? h("span", { class: "line-below muted" }, below) : null,
    );
  return h(
    "div",
    { class: "glance" },
    list(
      "Running now",
      runsLink({ state: "RUNNING,LAUNCHED", namespace }),
      now.runs.map((run) =>
        row(run.id, jobLink(run, namespace), [
          h("a", { href: `/ui/runs/${run.id}` }, run.started_at ? timeOf(run.started_at) : stateBadge("LAUNCHED")),
          h("span", { class: "muted" }, ` ${executorOf(run)}`),
        ]),
      ),
      ["Nothing runs now", "What is due next stands beside this."],
    ),
    list(
      "Waiting",
      runsLink({ state: "WAITING,RETRYING", namespace }),
      now.waiting.map((one) =>
        row(
          `${one.queue}-${one.reason}`,
          one.queue
            ? h("a", { href: `/ui/queues/${encodeURIComponent(one.queue)}` }, `Queue ${one.queue}`)
            : (WAIT_REASONS[one.reason] ?? "Queues without limits"),
          h(
            "a",
            { href: `/ui/runs/${one.id}` },
            `${number(one.count)}${one.exact ? "" : "+"} ${one.count === 1 ? "run" : "runs"}`,
          ),
          one.text,
        ),
      ),
      ["Nothing waits", "Runs start as soon as they are due."],
    ),
    list(
      "Due next",
      `/ui/jobs?${new URLSearchParams({ sort: "next", ...(namespace && { namespace }) })}`,
      now.due.map((one) => row(one.job_id, jobLink(one, namespace), dueAt(one.at))),
      ["Nothing is due", "Jobs with a schedule stand here before their times."],
    ),
    list(
      "Newest dead letters",
      now.dead_letters ? "/ui/dead-letters" : null,
      now.dead
        .slice(0, 5)
        .map((one) =>
          row(
            one.id,
            jobLink(one, namespace),
            h("a", { href: `/ui/runs/${one.id}` }, timeOf(one.since)),
            tellingLine(one.error) || one.reason?.replaceAll("_", " "),
          ),
        ),
      ["No dead letters", "A run that fails for good stands here until somebody deals with it."],
    ),
  );
}

function strip(cluster) {
  const title = cluster.leader
    ? `Cluster: ${cluster.leader} leads, term ${number(cluster.term)}`
    : "Cluster: no leader";
  return card(
    title,
    h(
      "ul",
      { class: "nodes" },
      cluster.nodes.map((node) => nodeCard(node)),
    ),
    { actions: h("a", { href: "/ui/cluster" }, "Cluster") },
  );
}
