/** The times of a run: how late, how long, and its attempts as bars. */

import { duration, executorOf, moment } from "../core/format.js";
import { h } from "../core/vdom.js";

const HIGH = 16;
const LEFT = 26;
export const BAR_KINDS = {
  succeeded: "bar-good",
  failed: "bar-bad",
  timed_out: "bar-bad",
  lost: "bar-odd",
  killed: "bar-odd",
  snoozed: "bar-odd",
  cancelled: "bar-odd",
};

/** Returns ms that a run takes or took: from its first start to its end. */
export function runLength(run, now) {
  return (moment(run.ended_at) ?? now) - moment(run.started_at);
}

/** Returns how late a run was made and started, in words; null where nothing was planned. */
export function lateness(run, then) {
  if (!then || then.fired_late_ms === null) return null;
  const made = `made ${duration(then.fired_late_ms)} late`;
  return then.started_late_ms === null ? made : `${duration(then.started_late_ms)} (${made})`;
}

/** Returns bars [{number, from, to, kind, words}, ...] of a run's waits and attempts, in ms since it was made. */
export function timesOf(run, now) {
  const zero = moment(run.created_at);
  const found = [];
  let free = zero;
  for (const one of run.attempts) {
    const start = moment(one.started_at) ?? (one.ended_at ? moment(one.ended_at) : now);
    const end = moment(one.ended_at) ?? now;
    if (start > free) {
      found.push({
        number: one.number,
        from: free - zero,
        to: start - zero,
        kind: "bar-wait",
        words: `waited ${duration(start - free)}`,
      });
    }
    if (one.started_at) {
      const words = `attempt ${one.number} on ${executorOf(one)}: ${one.outcome ?? "runs"}, ${duration(end - start)}`;
      found.push({
        number: one.number,
        from: start - zero,
        to: end - zero,
        kind: BAR_KINDS[one.outcome] ?? "bar-run",
        words,
      });
    }
    free = end;
  }
  return found;
}

/** Returns the attempts of a run as bars over time, a row each. */
export function bars(run, now) {
  const found = timesOf(run, now);
  if (!found.length) return null;
  const last = Math.max(1, ...found.map(({ to }) => to));
  const place = (ms) => `calc(${LEFT}px + (100% - ${LEFT}px) * ${ms / last})`;
  const length = (ms) => `max(2px, (100% - ${LEFT}px) * ${ms / last})`;
  const numbers = [...new Set(found.map((one) => one.number))];
  const y = (one) => numbers.indexOf(one.number) * (HIGH + 4);
  const high = numbers.length * (HIGH + 4) + 16;
  return h(
    "svg",
    {
      class: "run-bars",
      width: "100%",
      height: high,
      role: "img",
      "aria-label": found.map(({ words }) => words).join("; "),
    },
    numbers.map((number, at) => h("text", { x: 0, y: at * (HIGH + 4) + 12, key: number }, `#${number}`)),
    found.map((one, at) =>
      h(
        "rect",
        {
          key: `bar ${at}`,
          class: one.kind,
          y: y(one),
          height: HIGH,
          rx: 2,
          style: { x: place(one.from), width: length(one.to - one.from) },
        },
        h("title", null, one.words),
      ),
    ),
    h("text", { x: LEFT, y: high - 2, key: "from" }, "made"),
    h("text", { x: "100%", y: high - 2, key: "to", "text-anchor": "end" }, `+${duration(last)}`),
  );
}
