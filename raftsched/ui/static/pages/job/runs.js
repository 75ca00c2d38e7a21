/** The runs of a job: a timeline of the newest, how long they took and how late they began, and the list. */

import { asOf, card, empty, loading, problem, stateBadge, table, timeOf } from "../../components/basics.js";
import { get } from "../../core/api.js";
import { View, define } from "../../core/element.js";
import { tellingLine } from "../../core/errors.js";
import { absolute, duration, executorOf, moment, number, plural, stateWords } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { INSTANCE_STATE_NAME } from "../../core/words.js";
import { RUN_FIELDS, RunHistory } from "./history.js";
import { jobPath, kindsOf, runLink, runPath } from "./paths.js";
import { ENDED, durationOf, skipText } from "./phases.js";
import { lengths, rows } from "./pictures.js";

const LIVE = 30; // the newest runs, which are read again at each change
const ROWS = 20; // of the timeline
const PLOTTED = 200;
const FIRST_RUNS = 25;
const MORE = 100;
const STATS_MS = 5_000;

class JobRuns extends View {
  #job = null;
  #page = null;
  #all = null; // RunHistory of all states
  #chosen = null; // RunHistory of the state that is chosen
  #state = "";
  #seen = null; // the newest data that were taken up
  #waits = new Map(); // id -> waits of the explanation; null while it is being read
  #axis = "since";
  #rows = FIRST_RUNS; // of the list

  set job(job) {
    if (job.id !== this.#job?.id) {
      this.#all = new RunHistory(job.id);
      this.#chosen = null;
      this.#seen = null;
    }
    this.#job = job;
    this.update();
  }

  /** The state of the runs that are listed; "": any. */
  set state(state) {
    this.#state = state;
    this.#chosen = state ? new RunHistory(this.#job.id, state) : null;
    this.#rows = FIRST_RUNS;
    this.update();
  }

  /** The page, whose address has that state. */
  set page(page) {
    this.#page = page;
  }

  connected() {
    this.#all.older(PLOTTED, this.signal).then(() => this.update());
    // What goes on grows longer.
    const timer = setInterval(() => {
      if (!document.hidden && this.#all.items.some((run) => !ENDED.has(run.state))) this.update();
    }, 1_000);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  render() {
    const live = this.#live(this.#all, "");
    const list = this.#chosen ?? this.#all;
    const newest = this.#chosen ? this.#live(list, this.#state) : live;
    if (live.data && live.data !== this.#seen) this.#takeUp(live.data);
    const runs = this.#all.items;
    if (!live.data && !runs.length) return live.error ? problem(live.error) : loading();
    if (!runs.length) return card("Runs", this.#none());
    return [
      asOf(live),
      this.#held(runs),
      this.#numbers((state) => this.#page.setQuery({ state })),
      this.#timeline(runs.slice(0, ROWS)),
      lengths(runs.slice(0, PLOTTED)),
      this.#list(list, newest),
    ];
  }

  #live(history, state) {
    const query = new URLSearchParams({ limit: LIVE, fields: RUN_FIELDS, ...(state && { state }) });
    const path = `${jobPath(this.#job)}/instances?${query}`;
    const resource = this.watch(path, { on: kindsOf(this.#job) });
    if (resource.data) history.newest(resource.data);
    return resource;
  }

  #takeUp(data) {
    this.#seen = data;
    this.#all.refresh(data, this.signal).then((changed) => changed && this.update());
    if (!this.#job.conditions?.length) return;
    if (this.#waits.size > PLOTTED) this.#waits.clear();
    for (const { id, state } of data.items.slice(0, ROWS)) {
      if (state === "SKIPPED" || this.#waits.has(id)) continue;
      if (ENDED.has(state)) this.#waits.set(id, null);
      get(`${runPath({ id })}/explain`, null, { signal: this.signal }).then(
        ({ waits }) => {
          if (ENDED.has(state)) this.#waits.set(id, waits);
          this.update();
        },
        () => this.#waits.delete(id),
      );
    }
  }

  #none() {
    const { state, trigger, resumes_at: until } = this.#job;
    const paused = state === "NEW" || state === "SUSPENDED";
    const advice = trigger?.manual
      ? "It runs when somebody asks for it."
      : trigger?.after
        ? "It runs when those have ended that it follows."
        : "Its first run appears here by itself.";
    return empty(
      "There is no run yet.",
      paused
        ? until
          ? ["It is due again by itself ", timeOf(until), "; Run now works at any time."]
          : "Nothing is due until it is resumed; Run now works at any time."
        : advice,
    );
  }

  /** Says what holds up the runs that wait for conditions. */
  #held(runs) {
    const held = runs.filter((run) => run.state === "WAITING" && run.reason === "conditions");
    if (!held.length) return null;
    return h(
      "div",
      { class: "warning" },
      held
        .slice(0, 3)
        .map((run) =>
          h(
            "p",
            { key: run.id },
            h("a", { href: runLink(run) }, `The run of ${absolute(moment(run.scheduled_at))}`),
            " waits for conditions: ",
            run.error ?? "they are being checked.",
          ),
        ),
      held.length > 3
        ? h("p", { key: "more" }, `${plural(held.length - 3, "more run waits", "more runs wait")}.`)
        : null,
    );
  }

  #numbers(choose) {
    const { data, error } = this.watch(`${jobPath(this.#job)}/stats`, { every: STATS_MS });
    if (!data) return problem(error);
    const { instances, duration: took, lateness, attempts, skipped_fires, dead_letters } = data;
    const spread = (name, one) => {
      const [p50, p90, p99, max] = [one.p50, one.p90, one.p99, one.max].map(duration);
      return one.count ? `${name}: median ${p50}, p90 ${p90}, p99 ${p99}, most ${max}` : null;
    };
    const words = [
      spread("An attempt takes", took),
      spread("Starts late by", lateness),
      attempts.lost ? `${plural(attempts.lost, "attempt")} lost with a node` : null,
      skipped_fires ? `${plural(skipped_fires, "due time")} skipped` : null,
    ];
    return h(
      "div",
      { class: "numbers" },
      Object.entries(instances)
        .filter(([, count]) => count)
        .map(([state, count]) =>
          h(
            "button",
            {
              type: "button",
              key: state,
              class: "quiet small",
              title: `List the runs that are ${stateWords(state)}`,
              onclick: () => choose(state),
            },
            stateBadge(state),
            h("strong", null, number(count)),
          ),
        ),
      dead_letters ? h("a", { key: "dead", href: this.#deadLetters() }, plural(dead_letters, "dead letter")) : null,
      words.filter(Boolean).map((text) => h("span", { key: text.replace(/:.*/, ""), class: "muted" }, text)),
    );
  }

  #deadLetters() {
    const { id, name, namespace } = this.#job;
    return `/ui/dead-letters?job=${encodeURIComponent(name ? `${namespace}/${name}` : id)}`;
  }

  #timeline(runs) {
    const choose = (axis) => {
      this.#axis = axis;
      this.update();
    };
    return rows(runs, this.#waits, this.#axis, choose);
  }

  #list(history, resource) {
    const choose = (state) => this.#page.setQuery({ state });
    const filter = h(
      "div",
      { class: "row" },
      h("label", { for: "run-state" }, "State"),
      h(
        "select",
        { id: "run-state", value: this.#state, onchange: (event) => choose(event.target.value) },
        h("option", { value: "" }, "any"),
        INSTANCE_STATE_NAME.map((one) => h("option", { key: one, value: one }, stateWords(one))),
      ),
    );
    const listed = history.items.slice(0, this.#rows);
    const older = async () => {
      this.#rows += MORE;
      const reading = history.more && history.items.length < this.#rows ? history.older(MORE, this.signal) : null;
      this.update();
      await reading;
      this.update();
    };
    return card(
      "Runs",
      [
        history.items.length
          ? table(COLUMNS, listed, { key: (run) => run.id, caption: "Runs, the newest first" })
          : resource.data
            ? empty(
                "No run is in this state.",
                null,
                h("button", { type: "button", onclick: () => choose(null) }, "Show all"),
              )
            : (problem(resource.error) ?? loading()),
        problem(history.error),
        h(
          "p",
          { class: "list-end" },
          h("span", { class: "muted" }, plural(listed.length, "run")),
          history.more || listed.length < history.items.length
            ? h(
                "button",
                { type: "button", disabled: history.busy, onclick: older },
                history.busy ? "Reading …" : "More",
              )
            : null,
        ),
      ],
      { actions: filter },
    );
  }
}
define("rs-job-runs", JobRuns);

const COLUMNS = [
  { title: "State", cell: (run) => stateBadge(run.state) },
  {
    title: "Due",
    cell: (run) => h("a", { href: runLink(run) }, absolute(moment(run.scheduled_at))),
    class: "nowrap",
  },
  { title: "", cell: (run) => timeOf(run.scheduled_at), class: "nowrap muted" },
  { title: "Late", number: true, cell: (run) => duration(run.late_ms) },
  { title: "Took", number: true, cell: (run) => duration(durationOf(run)) },
  { title: "Attempts", number: true, cell: (run) => number(run.attempt || null) },
  { title: "Node", cell: (run) => executorOf(run) },
  {
    title: "",
    cell: (run) =>
      [run.manual ? "started by hand" : run.cause ? "follows another run" : null, run.dead_letter ? "dead letter" : null, errorText(run)]
        .filter(Boolean)
        .join(" · "),
    class: "run-note",
  },
];

function errorText(run) {
  if (run.state === "SKIPPED") return skipText(run);
  return tellingLine(run.error).slice(0, 120) || run.reason;
}

/** Returns the runs of a job. */
export function jobRuns(job, page) {
  return h("rs-job-runs", { ".job": job, ".page": page, ".state": page.query.get("state") ?? "" });
}
