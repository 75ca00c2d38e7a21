/** A year of a job's outcomes, day by day, from the runs that are kept. */

import { card, empty, loading, problem, table } from "../../components/basics.js";
import { DAYS, moved, outcomeYear } from "../../charts/year.js";
import { pages } from "../../core/api.js";
import { onChange } from "../../core/changes.js";
import { View, define } from "../../core/element.js";
import { absolute, moment, number, plural, stateWords } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { jobPath } from "./paths.js";

const YEAR_RUNS = 5_000; // the newest, which are counted
const LISTED_DAYS = 31; // of the table, until more are wanted
const YEAR_APART_MS = 5_000;
// From the worst to the best: what a day is shown as.
const WORST = ["FAILED", "TIMED_OUT", "KILLED", "RETRYING", "RUNNING", "LAUNCHED", "WAITING", "SUCCEEDED", "SKIPPED"];

/** Returns Map(day -> {STATE: count}) of runs, by the viewer's days. */
export function daysOf(runs) {
  const days = new Map();
  for (const { scheduled_at: at, state } of runs) {
    const day = absolute(moment(at)).slice(0, 10);
    const counts = days.get(day) ?? {};
    counts[state] = (counts[state] ?? 0) + 1;
    days.set(day, counts);
  }
  return days;
}

/** Returns the worst state of a day. */
export function worstOf(counts) {
  return WORST.find((state) => counts?.[state]) ?? null;
}

function inWords(counts) {
  return WORST.filter((state) => counts[state])
    .map((state) => `${number(counts[state])} ${stateWords(state)}`)
    .join(", ");
}

class JobYear extends View {
  #job = null;
  #runs = null; // the newest first
  #cut = false; // there are older ones
  #error = null;
  #rows = LISTED_DAYS;
  #readAt = -Infinity;
  #timer = 0;
  #busy = false;

  set job(job) {
    this.#job = job;
    this.update();
  }

  connected() {
    const stop = onChange((change) => {
      if (change === null || change.more || change.ran.has(this.#job.id)) this.#soon();
    });
    this.signal.addEventListener("abort", () => (stop(), clearTimeout(this.#timer)));
    this.#read();
  }

  #soon() {
    if (this.#timer || document.hidden) return;
    const wait = Math.max(0, this.#readAt + YEAR_APART_MS - performance.now());
    this.#timer = setTimeout(() => ((this.#timer = 0), this.#read()), wait);
  }

  async #read() {
    if (this.#busy) return;
    this.#busy = true;
    const query = { fields: "id,state,scheduled_at" };
    const runs = [];
    try {
      this.#cut = false;
      for await (const items of pages(`${jobPath(this.#job)}/instances`, query, { signal: this.signal })) {
        runs.push(...items);
        if (runs.length >= YEAR_RUNS) {
          this.#cut = true;
          break;
        }
      }
      this.#runs = runs;
      this.#error = null;
    } catch (error) {
      if (!this.signal.aborted) this.#error = error;
    }
    this.#busy = false;
    this.#readAt = performance.now();
    this.update();
  }

  render() {
    const runs = this.#runs;
    if (!runs) return this.#error ? problem(this.#error) : loading();
    if (!runs.length) return card("A year", empty("No run of it is kept.", "Days appear here as it runs."));
    const today = absolute(Date.now()).slice(0, 10);
    const days = daysOf(runs);
    const first = absolute(moment(runs.at(-1).scheduled_at)).slice(0, 10);
    const job = `${this.#job.namespace}/${this.#job.name ?? this.#job.id}`;
    const link = (day) => {
      const query = { job: this.#job.name ? job : this.#job.id, from: edge(day), to: edge(moved(day, 1)) };
      return `/ui/runs?${new URLSearchParams(query)}`;
    };
    const known = this.#cut
      ? `Of the newest ${plural(runs.length, "run")}: known since ${first}.`
      : `Known since ${first}, of ${plural(runs.length, "run")}: the cluster keeps runs as the job's retention says.`;
    return [
      card("A year", [
        h("p", { class: "muted year-known" }, known),
        outcomeYear(today, { first, link, worst: (day) => worstOf(days.get(day)), says: (day) => days.get(day) && inWords(days.get(day)) }),
        legend(),
      ]),
      card("As a table", this.#table([...days], link)),
    ];
  }

  #table(days, link) {
    const columns = [
      { title: "Day", cell: ([day]) => h("a", { href: link(day) }, `${day} ${DAYS[(new Date(day).getUTCDay() + 6) % 7].slice(0, 2)}`) },
      { title: "Runs", number: true, cell: ([, counts]) => number(Object.values(counts).reduce((sum, one) => sum + one, 0)) },
      { title: "Outcomes", cell: ([, counts]) => inWords(counts) },
    ];
    return [
      table(columns, days.slice(0, this.#rows), { key: ([day]) => day, caption: "Outcomes by day" }),
      days.length > this.#rows
        ? h("button", { type: "button", onclick: () => ((this.#rows = Infinity), this.update()) }, `Show all ${number(days.length)} days`)
        : null,
    ];
  }
}
define("rs-job-year", JobYear);

/** Returns the start of a day of the viewer as the API has times. */
function edge(day) {
  return new Date(`${day}T00:00`).toISOString();
}

function legend() {
  const kinds = [
    ["ok", "what ran succeeded"],
    ["bad", "one failed or timed out"],
    ["odd", "one was killed"],
    ["open", "not ended"],
    ["none", "all skipped"],
  ];
  return h(
    "p",
    { class: "year-legend" },
    kinds.map(([kind, words]) => h("span", { key: kind }, h("span", { class: `year-day day-${kind}`, "aria-hidden": "true" }, "1"), ` ${words}`)),
  );
}

/** Returns a year of a job's outcomes. */
export function jobYear(job) {
  return h("rs-job-year", { ".job": job });
}
