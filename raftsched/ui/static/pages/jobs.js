/** All jobs: searched, filtered, and acted on together. */

import { empty, heading, stateBadge, timeOf } from "../components/basics.js";
import { ListPage, namespaceOf } from "../components/list-page.js";
import { savedFilters } from "../components/saved.js";
import { jobTriggerText, triggerZone } from "../components/trigger-text.js";
import { RowSelection, chosenBar, named, second, virtualList } from "../components/virtual-list.js";
import { runStrip } from "../charts/strip.js";
import { get } from "../core/api.js";
import { onChange } from "../core/changes.js";
import { define } from "../core/element.js";
import { absolute, ago, moment, number, stateWords, viewerZone } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { ACTIONS, actOnMany } from "./jobs/bulk.js";

const JOB_LIST_FIELDS = "id,name,namespace,owner,state,trigger,triggers,next_fire_at,active,failures_in_a_row,last_state,last_end_at,last_instance,error,resumes_at";
const JOB_STATES = ["SCHEDULED", "SUSPENDED", "NEW", "EXPIRED"];
const CHOICES = [["", "any"], ...JOB_STATES.map((state) => [state, stateWords(state)])];
const HEALTH = [
  ["", "any"],
  ["failing", "failing"],
  ["late", "late now"],
];
const JOB_ORDERS = {
  name: (row) => row.name ?? row.id,
  trigger: jobTriggerText,
  state: (row) => row.state,
  failures: (row) => row.failures_in_a_row,
};
// The API's own order by the next time is of a range of times.
const SINCE = "1970-01-01T00:00:00Z";
const RUNS = 30;
const LATE_MS = 1_000;
const AT_ONCE = 50; // jobs whose runs one request asks for
const ROWS_APART_MS = 1_000; // between two of these, and while more changes than is told one by one
const ROWS_BUSY_MS = 4_000;

export class JobsPage extends ListPage {
  #runs = new Map(); // id of a job -> its newest runs
  #old = new Set(); // ids of jobs whose runs changed since
  #askedAt = -Infinity;
  #apart = ROWS_APART_MS;
  #asking = false;
  #columns = JOB_COLUMNS.map((one) => ({ ...one, cell: (row) => one.cell(row, this.#runs) }));
  #rest = (rows) => this.#askRuns(rows);

  connected() {
    this.selection = new RowSelection(() => (this.update(), this.drawn()?.update()));
    super.connected();
    const stop = onChange((change) => {
      const all = change === null || (change.more && change.kinds.has("runs"));
      for (const id of all ? this.#runs.keys() : change.ran) this.#old.add(id);
      this.#apart = change?.more ? ROWS_BUSY_MS : ROWS_APART_MS;
      if (all || change.ran.size) this.drawn()?.update();
    });
    this.signal.addEventListener("abort", stop);
  }

  opened() {
    this.selection?.chooseAll(false);
  }

  /** Returns the filters as the API has them. */
  filters() {
    const { query } = this;
    const text = query.get("q") ?? "";
    const slash = text.indexOf("/");
    return {
      namespace: slash > 0 ? text.slice(0, slash) : namespaceOf(query),
      name_contains: text.slice(slash + 1) || undefined,
      owner: query.get("owner") || undefined,
      label: query.get("label") || undefined,
      queue: query.get("queue") || undefined,
      calendar: query.get("calendar") || undefined,
      state: query.get("state") || undefined,
      failing: query.get("health") === "failing" || undefined,
      late: query.get("health") === "late" || undefined,
      next_from: this.#byNext ? SINCE : undefined,
    };
  }

  get #byNext() {
    return this.query.get("sort") === "next";
  }

  options() {
    const query = this.filters();
    const { name_contains: part, label, queue, calendar, failing, late, next_from: next } = query;
    const uncounted = part || label || queue || calendar || failing || late || next;
    return {
      path: "/v1/jobs",
      query: next ? query : { ...query, order: "desc" },
      fields: JOB_LIST_FIELDS,
      compare: next ? compareNext : (a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0),
      kinds: ["jobs", "runs"],
      touched: ({ jobs, ran }) => [...jobs, ...ran],
      made: ({ jobs }) => [...jobs],
      count: uncounted ? undefined : (signal) => countJobs(query, signal),
    };
  }

  render() {
    const { list, selection } = this;
    const nothing = list.ready && !list.length;
    return [
      heading("Jobs", {
        below: h("p", { class: "muted", role: "status" }, this.counted("job", JOB_ORDERS), this.#byNext ? " with a next time" : ""),
        actions: session.may("jobs_create")
          ? [
              h("a", { class: "button", href: "/ui/crontab" }, "From a crontab"),
              h("a", { class: "button primary", href: "/ui/jobs/new" }, "New job"),
            ]
          : null,
      }),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Jobs", onsubmit: (event) => event.preventDefault() },
        this.search("q", "Name", "part of a name, or billing/part"),
        this.field("namespace", "Namespace", { choices: this.namespaces() }),
        this.field("state", "State", { choices: CHOICES }),
        this.field("health", "Health", { choices: HEALTH }),
        this.field("owner", "Owner"),
        this.field("label", "Label", { placeholder: "key=value" }),
        this.field("queue", "Queue"),
        this.query.get("calendar") ? this.field("calendar", "Calendar") : null,
      ),
      savedFilters(this.query),
      this.trouble(),
      selection.all || selection.ids.size ? this.#chosen() : null,
      nothing
        ? this.#empty()
        : virtualList({
            list: this.ordered(JOB_ORDERS),
            sort: this.query.get("sort"),
            onsort: (sort) => this.sortBy(sort === "-next" ? null : sort),
            label: "Jobs",
            columns: this.#columns,
            open: addressOfJob,
            selection: session.may("operations_act") ? selection : null,
            onrest: this.#rest,
          }),
    ];
  }

  #empty() {
    const filtered = Object.values(this.filters()).some(Boolean);
    if (filtered) {
      const all = h("a", { class: "button", href: "/ui/jobs" }, "Show all jobs");
      return empty("No job matches", "Take a filter away, or look for another part of a name.", all);
    }
    return empty(
      "There are no jobs yet",
      "A job says what is to run, and when. Make one from a form, or bring a crontab.",
      session.may("jobs_create") ? h("a", { class: "button primary", href: "/ui/jobs/new" }, "New job") : null,
    );
  }

  /** Returns what can be done with the jobs that are chosen. */
  #chosen() {
    const actions = Object.entries(ACTIONS);
    const buttons = actions.map(([action, { title }]) => [title, null, true, () => this.#act(action)]);
    return chosenBar(this.selection, "job", this.counted("job"), buttons);
  }

  async #act(action) {
    const { selection } = this;
    const target = selection.all ? this.#asBody() : { ids: [...selection.ids] };
    if (await actOnMany(action, target)) selection.chooseAll(false);
  }

  /** Returns the filters as the body of an action on many jobs has them. */
  #asBody() {
    const { label, state, ...rest } = this.filters();
    const filter = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    if (state) filter.state = state.split(",");
    if (label) {
      const at = label.indexOf("=");
      filter.labels = { [label.slice(0, at)]: label.slice(at + 1) };
    }
    return Object.keys(filter).length ? { filter } : { all: true };
  }

  /** Reads the newest runs of the jobs on the screen, where they are not known or changed. */
  async #askRuns(rows) {
    const wanted = rows.map((row) => row.id).filter((id) => !this.#runs.has(id) || this.#old.has(id));
    if (!wanted.length || this.#asking || document.hidden) return;
    const wait = this.#askedAt + this.#apart - performance.now();
    if (wait > 0 && wanted.every((id) => this.#runs.has(id))) {
      setTimeout(() => this.drawn()?.update(), wait);
      return;
    }
    this.#asking = true;
    this.#askedAt = performance.now();
    try {
      for (let at = 0; at < wanted.length; at += AT_ONCE) {
        const some = wanted.slice(at, at + AT_ONCE);
        for (const id of some) this.#old.delete(id);
        const query = { jobs: some.join(), count: RUNS };
        const { items } = await get("/v1/instances:recent", query, { signal: this.signal });
        for (const { job_id: id, runs } of items) this.#runs.set(id, runs);
      }
    } catch {
      // The strips stay as they are; the next change asks again.
    }
    this.#asking = false;
    this.drawn()?.update();
  }
}
define("rs-jobs-page", JobsPage);

function addressOfJob(row) {
  return `/ui/jobs/${row.id}`;
}

/** Returns how many jobs match, where that is quickly known: of no runs at all. */
async function countJobs({ namespace, owner, state }, signal) {
  const now = new Date().toISOString();
  const { jobs } = await get("/v1/stats", { from: now, to: now, namespace, owner }, { signal });
  if (!jobs) return null;
  const states = state ? state.split(",") : JOB_STATES;
  return states.reduce((sum, one) => sum + (jobs[one] ?? 0), 0);
}

const JOB_COLUMNS = [
  {
    title: "Name",
    by: "name",
    class: "col-name",
    cell: (row) => [
      named(row.name ?? row.id, addressOfJob(row)),
      second([row.namespace, row.owner]),
    ],
  },
  {
    title: "Trigger",
    by: "trigger",
    class: "col-trigger",
    cell: (job) => [
      h("code", { title: jobTriggerText(job) }, jobTriggerText(job)),
      second([job.trigger ? job.trigger.timezone : triggerZone(job)]),
    ],
  },
  {
    title: "State",
    by: "state",
    class: "col-state",
    cell: ({ state, active, error, resumes_at: until }) => [
      stateBadge(state),
      h(
        "span",
        { class: "second", title: error ?? "" },
        active ? `${number(active)} active` : until ? ["until ", timeOf(until)] : (error ?? ""),
      ),
    ],
  },
  { title: "Next", by: "next", class: "col-next", cell: nextCell },
  { title: "Last run", by: "failures", class: "col-last", cell: lastCell },
  {
    title: "Runs",
    class: "col-strip",
    cell: ({ id }, runs) => (runs.has(id) ? runStrip(runs.get(id), RUNS) : null),
  },
];

/** Returns how the newest run that ended went, and when; how many failed in a row where that is more than one. */
function lastCell({ id, failures_in_a_row: failures, ...job }, runs) {
  const read = runs.get(id)?.find((run) => run.ended_at && run.state !== "SKIPPED");
  const last = read ?? { id: job.last_instance, state: job.last_state, ended_at: job.last_end_at };
  if (!last.state) return h("span", { class: "muted" }, "–");
  const when = ago(moment(last.ended_at));
  return [
    h("a", { href: `/ui/runs/${encodeURIComponent(last.id)}`, tabindex: "-1" }, stateBadge(last.state)),
    second([failures > 1 ? `${number(failures)} in a row` : when]),
  ];
}

function compareNext(a, b) {
  const [x, y] = [a, b].map((row) => `${row.next_fire_at}${row.id}`);
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Returns when a job is due next: from now, and in its own zone where that is another one than the viewer's. */
function nextCell(job) {
  const { next_fire_at: iso } = job;
  const at = moment(iso);
  if (at === null) return h("span", { class: "muted" }, "–");
  const mine = viewerZone();
  const zone = triggerZone(job) ?? mine;
  const title = zone === mine ? `${absolute(at)} ${mine}` : `${absolute(at, zone)} ${zone}\n${absolute(at)} ${mine}`;
  return [
    h("time", { datetime: iso, title }, at < Date.now() - LATE_MS ? "overdue" : ago(at)),
    second([`${absolute(at, zone, { seconds: false })}${zone === mine ? "" : ` ${zone}`}`]),
  ];
}
