/** What a run went through, from what the API says of it. */

import { duration, moment, plural } from "../../core/format.js";
import { END_STATE_NAME } from "../../core/words.js";

const WAITS = {
  conditions: "waited for its conditions",
  retry: "waited for the delay of its retry, or was put off",
  queued: "waited for its turn",
  unstarted: "was with a worker that did not start it",
};
const LATER = new Set(["failed", "timed_out", "snoozed"]);
export const ENDED = new Set(END_STATE_NAME);

/** Returns when a run began to exist for its job: its due time, or when somebody asked for it. */
export function startOf(run) {
  return moment(run.manual || run.cause ? run.created_at : run.scheduled_at);
}

/**
 * Returns the phases of a run, oldest first: `{kind, from, to, outcome?, number?, node?}` in ms since the epoch. Kinds:
 * "queued", "conditions", "retry", "unstarted", "attempt".
 *
 * @param {object} run an instance of the API
 * @param {number} now
 * @param {Array<{reason, from, to}>} [waits] those of its explanation, where it was read
 */
export function phases(run, now, waits = []) {
  if (run.state === "SKIPPED") return [];
  const found = [];
  let at = startOf(run);
  let kind = "queued";
  const wait = (to) => {
    if (to > at) found.push(...split({ kind, from: at, to }, waits));
    at = Math.max(at, to);
  };
  for (const attempt of run.attempts) {
    const ended = moment(attempt.ended_at);
    const never = !attempt.started_at && attempt.outcome;
    const started = moment(never ? attempt.assigned_at : attempt.started_at) ?? ended ?? now;
    wait(started);
    const to = ended ?? now;
    if (never) {
      kind = "unstarted";
      wait(to);
    }
    if (attempt.started_at) {
      const { number, node, outcome } = attempt;
      found.push({
        kind: "attempt",
        from: started,
        to: Math.max(started, to),
        outcome: outcome ?? "running",
        number,
        node,
      });
    }
    at = Math.max(at, to);
    kind = LATER.has(attempt.outcome) ? "retry" : "queued";
  }
  const open = run.attempts.at(-1);
  if (!open || open.outcome) {
    if (!ENDED.has(run.state)) {
      kind = { RETRYING: "retry" }[run.state] ?? (run.reason === "conditions" ? "conditions" : "queued");
      wait(now);
    } else if (!open) {
      if (run.reason === "conditions_timeout") kind = "conditions";
      wait(moment(run.ended_at) ?? at);
    }
  }
  return found;
}

/** Takes the waiting for conditions out of a wait, as the explanation of the run has it. */
function split(wait, waits) {
  const parts = [];
  let at = wait.from;
  for (const { reason, from, to } of waits) {
    if (reason !== "conditions") continue;
    const low = Math.max(at, moment(from));
    const high = Math.min(wait.to, moment(to) ?? wait.to);
    if (high <= low) continue;
    if (low > at) parts.push({ ...wait, from: at, to: low });
    parts.push({ kind: "conditions", from: low, to: high });
    at = high;
  }
  if (at < wait.to) parts.push({ ...wait, from: at });
  return parts;
}

/** Returns a phase in words: "attempt 2 on n1 failed after 3.4 s". */
export function phaseText({ kind, from, to, outcome, number, node }) {
  const length = duration(to - from);
  if (kind !== "attempt") return `${WAITS[kind]} ${length}`;
  const end = outcome === "running" ? "runs since" : `${outcome.replaceAll("_", " ")} after`;
  return `attempt ${number} on ${node} ${end} ${length}`;
}

/** Returns the length of a run: from the start of the first attempt that did to its end; null while it has not both. */
export function durationOf(run) {
  const first = moment(run.attempts.find((attempt) => attempt.started_at)?.started_at);
  const last = moment(run.attempts.at(-1)?.ended_at);
  return first === null || last === null ? null : last - first;
}

/** Returns why due times were not run. */
export function skipText({ reason, skipped }) {
  return `${(reason ?? "not run").replaceAll("_", " ")}${skipped > 1 ? `, ${plural(skipped, "time")}` : ""}`;
}
