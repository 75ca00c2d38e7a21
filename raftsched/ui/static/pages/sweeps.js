/** What is done to many runs or dead letters: first counted, then done in the steps of the API. */

import { h } from "../core/vdom.js";
import { del, post } from "../core/api.js";
import { confirmDialog, toast } from "../components/dialog.js";
import { number, plural } from "../core/format.js";

// Of ids at once: those of discard are in an address; to kill or rerun, each is a request of its own.
const IDS_MAX = { requeue: 1_000, discard: 100, kill: 8, rerun: 8 };

const SWEEP_WORDS = {
  requeue: { one: "dead letter", action: "Requeue", done: "requeued", effect: "What is requeued runs again, with its retries." },
  kill: {
    one: "run",
    action: "Kill",
    done: "killed",
    effect: "What runs is asked to end, and killed when it does not; what waits does not start.",
  },
  rerun: { one: "run", action: "Rerun", done: "started again", effect: "Each gets one more attempt, with its parameters." },
  discard: {
    one: "dead letter",
    action: "Discard",
    done: "discarded",
    effect: "What is discarded does not run again. It stays readable until its retention is over.",
  },
};

/**
 * Returns `{matched, done, refused}` of all steps.
 *
 * @param {"requeue"|"discard"|"kill"|"rerun"} kind
 * @param {string[]|object} target ids, or a filter; an empty filter means all
 * @param {(matched: number) => void} onStep
 */
export async function sweep(kind, target, dry, onStep) {
  const total = { matched: 0, done: 0, refused: [] };
  const parts = Array.isArray(target) ? chunks(target, IDS_MAX[kind]) : [null];
  for (const ids of parts) {
    let cursor;
    do {
      const step = await askFor(kind, ids ?? target, dry, cursor);
      total.matched += step.matched;
      total.done += step.requeued ?? step.discarded ?? step.killed;
      total.refused.push(...step.refused);
      cursor = step.next ?? undefined;
      onStep?.(total.matched);
    } while (cursor);
  }
  return total;
}

/** Does the same to each of some runs. */
async function each(kind, ids, dry) {
  const path = (id) => `/v1/instances/${encodeURIComponent(id)}/${kind}`;
  const answers = dry ? [] : await Promise.allSettled(ids.map((id) => post(path(id))));
  const refused = answers.filter((one) => one.reason).map(({ reason }) => ({ detail: reason.detail || reason.message }));
  return { matched: ids.length, killed: answers.length - refused.length, refused };
}

function askFor(kind, target, dry, cursor) {
  if (kind === "kill" || kind === "rerun") {
    if (Array.isArray(target)) return each(kind, target, dry);
    return post("/v1/instances:kill", { filter: target, dry_run: dry, cursor });
  }
  const all = !Array.isArray(target) && !Object.keys(target).length;
  if (kind === "requeue") {
    const what = Array.isArray(target) ? { ids: target } : all ? { all: true } : { filter: target };
    return post("/v1/dead-letters/requeue", { ...what, dry_run: dry, cursor });
  }
  const what = Array.isArray(target) ? { ids: target.join(",") } : all ? { all: true } : target;
  return del("/v1/dead-letters", { query: { ...what, dry_run: dry, cursor } });
}

function chunks(list, size) {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size));
}

/**
 * Counts what matches, asks, and does it. Returns whether it was done. `which` says what they are: "of this cause";
 * `before` is done first.
 */
export async function confirmSweep(kind, target, which, { title, before } = {}) {
  const { one, action, done, effect } = SWEEP_WORDS[kind];
  let counted;
  try {
    counted = await sweep(kind, target, true);
  } catch (error) {
    toast(`${error.title ?? "Error"}: ${error.detail || error.message}`, { kind: "error" });
    return false;
  }
  const { matched } = counted;
  if (!matched && !before) {
    toast(`There is no such ${one} any more.`);
    return true;
  }
  let progress = 0;
  let place = null;
  const sure = await confirmDialog({
    title: title ?? `${action} ${plural(matched, one)}?`,
    action: title ? "Stop" : `${action} ${number(matched)}`,
    danger: kind === "discard" || kind === "kill",
    body: () => [
      h("p", null, `${plural(matched, one)} ${which}. ${effect}`),
      h(
        "p",
        { role: "status", ref: (element) => (place = element) },
        progress ? `${number(progress)} of ${number(matched)} …` : "",
      ),
    ],
    run: async () => {
      await before?.();
      const result = await sweep(kind, target, false, (count) => {
        progress = count;
        if (place) place.textContent = `${number(count)} of ${number(matched)} …`;
      });
      if (!result.refused.length) toast(`${plural(result.done, one)} ${done}`);
      else
        toast(`${number(result.done)} ${done}; ${number(result.refused.length)} refused: ${result.refused[0].detail}`, {
          kind: "error",
        });
    },
  });
  return sure;
}
