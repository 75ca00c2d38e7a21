/** When a job is due: its trigger in words, the next times, and a month of them. */

import { monthCalendar } from "../../charts/calendar.js";
import { asOf, card, empty, facts, loading, problem, timeOf } from "../../components/basics.js";
import { triggerText, triggerZone, triggersOf, whenOf } from "../../components/trigger-text.js";
import { post } from "../../core/api.js";
import { View, define } from "../../core/element.js";
import { moment, number, viewerZone } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { shownAt, timesTable } from "../editor/times.js";
import { dateOf, monthAfter, monthOf, startOfMonth } from "./months.js";
import { jobPath, kindsOf } from "./paths.js";

const TIMES_ASKED = 10;
const DAYS_MS = 600_000; // between two countings of days, which grow old slowly
const TRIGGER_WORDS = {
  cron: "Cron expression",
  rrule: "Recurrence rule",
  every: "Every",
  at: "At",
  in: "After",
  mode: "Counted from",
  dialect: "Dialect",
  timezone: "Time zone",
  jitter: "Put off at random by up to",
  starts_at: "Starts",
  ends_at: "Ends",
  max_runs: "Runs at most",
};
const MODES = { fixed_rate: "the times of its grid", fixed_delay: "the end of the run before" };

class JobSchedule extends View {
  #job = null;
  #month = null;
  #would = new Map(); // what the trigger of a job that is paused would say: key -> {data, error}

  set job(job) {
    this.#job = job;
    this.update();
  }

  render() {
    const job = this.#job;
    const next = this.#next();
    const { data, error } = next;
    const zone = zoneOf(job);
    return h(
      "div",
      { class: "stack" },
      asOf(next),
      job.triggers?.length
        ? card("Triggers", [
            job.triggers.map((one) => triggerCard(one)),
            facts([job.max_runs ? ["Runs of all, at most", number(job.max_runs)] : ["", null]]),
          ])
        : card("Trigger", [
            data ? h("p", { class: "words" }, data.description) : null,
            facts(Object.entries(job.trigger).map(([name, value]) => triggerFact(name, value))),
          ]),
      h(
        "div",
        { class: "grid" },
        card(isWaiting(job) ? "Next times, if it were resumed now" : "Next times", [
          data ? this.#times(data.next, zone) : error ? problem(error) : loading(),
        ]),
        isManual(job) || job.trigger?.after || job.state === "EXPIRED" ? null : card("Times by day", this.#calendar(zone)),
      ),
    );
  }

  /** Returns the next times: of the job while it is scheduled, else those that its trigger would have. */
  #next() {
    const { revision } = this.#job;
    if (!isWaiting(this.#job))
      return this.watch(`${jobPath(this.#job)}/next?count=${TIMES_ASKED}`, { on: kindsOf(this.#job) });
    return this.#preview(`${revision} next`, { ...whenOf(this.#job), count: TIMES_ASKED });
  }

  #days(zone, from, to) {
    const { revision } = this.#job;
    const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString(), by_day: zone, count: 1 };
    if (isWaiting(this.#job)) return this.#preview(`${revision} ${from}`, { ...whenOf(this.#job), ...range });
    // With the revision behind the path: another trigger has other days, and a run of the job changes none.
    const path = `${jobPath(this.#job)}/next?${new URLSearchParams(range)}#${revision}`;
    return this.watch(path, { every: DAYS_MS, on: triggersOf(this.#job).some((one) => one.calendar) ? ["calendars"] : [] });
  }

  #preview(key, body) {
    let found = this.#would.get(key);
    if (!found) {
      this.#would.set(key, (found = { data: undefined, error: null, at: Date.now() }));
      post("/v1/schedules/preview", body, { signal: this.signal }).then(
        (data) => ((found.data = data), this.update()),
        (error) => ((found.error = error), this.update()),
      );
    }
    return found;
  }

  #times(times, zone) {
    if (!times.length) return this.#none();
    const own = viewerZone();
    const same = times.every(({ at }) => shownAt(moment(at), zone) === shownAt(moment(at), own));
    return timesTable(times, same ? [zone] : [zone, own]);
  }

  #none() {
    const { error, state } = this.#job;
    if (state === "EXPIRED")
      return empty("Nothing is due any more.", "It is expired, and stays here with its history.");
    if (this.#job.trigger?.after)
      return empty("It has no times of its own.", "It runs when those have ended that it follows.");
    if (isManual(this.#job)) return empty("It has no times of its own.", "It runs when somebody asks for it: Run now.");
    if (isWaiting(this.#job)) return empty("It would have no more times.", "Edit its trigger to give it some.");
    return empty("There is no next time.", error ?? "A run is active, or it was the last one.");
  }

  #calendar(zone) {
    const now = Date.now();
    const current = monthOf(now, zone);
    const month = this.#month ?? current;
    const begin = startOfMonth(month, zone);
    const end = startOfMonth(monthAfter(month, 1), zone);
    const { data, error } = this.#days(zone, begin, end);
    if (!data) return error ? problem(error) : loading();
    return [
      monthCalendar({
        month,
        days: data.days ?? [],
        today: dateOf(now, zone),
        move: (by) => {
          this.#month = monthAfter(month, by);
          this.update();
        },
      }),
      h(
        "p",
        { class: "muted small-note" },
        month === current ? `From now on, by the days of ${zone}.` : `By the days of ${zone}.`,
      ),
    ];
  }
}
define("rs-job-schedule", JobSchedule);

/** Returns the zone in which a job's times are shown: that of its triggers; the viewer's where they have none. */
export function zoneOf(job) {
  return triggerZone(job) ?? viewerZone();
}

function isManual({ trigger }) {
  return Boolean(trigger?.manual);
}

/** Returns one of several triggers: its id, and what it says. */
function triggerCard({ id, ...said }) {
  return h(
    "div",
    { key: id },
    h("p", null, h("strong", null, id), " ", h("code", null, triggerText(said))),
    facts(Object.entries(said).map(([name, value]) => triggerFact(name, value))),
  );
}

/** Returns whether a job is not scheduled, but could be. */
function isWaiting({ state }) {
  return state === "NEW" || state === "SUSPENDED";
}

function triggerFact(name, value) {
  if (name === "manual") return ["Runs", "when somebody asks for it"];
  if (name === "after") return ["Follows", h("code", null, afterWords(value))];
  if (name === "calendar")
    return ["Not in the time of", h("a", { href: `/ui/calendars/${encodeURIComponent(value)}` }, value)];
  if (name === "mode") return [TRIGGER_WORDS.mode, MODES[value] ?? value];
  if (name.endsWith("_at") || name === "at")
    return [TRIGGER_WORDS[name], [timeOf(value, { relative: false }), " · ", timeOf(value)]];
  return [TRIGGER_WORDS[name] ?? name, h("code", null, String(value))];
}

/** Returns the jobs that one follows, and after which end of theirs. */
function afterWords({ job, all_of: all, any_of: any, on = "succeeded" }) {
  const which = job ?? (all ? `all of ${all.join(", ")}` : `any of ${(any ?? []).join(", ")}`);
  return `${which}: ${on}`;
}

/** Returns when a job is due. */
export function jobSchedule(job) {
  return h("rs-job-schedule", { ".job": job });
}
