/** The newest runs of a job as a strip: a bar each, the newest on the right; its height and colour say how it went. */

import { plural, stateWords } from "../core/format.js";
import { h } from "../core/vdom.js";

const STEP = 5; // px from bar to bar
const STRIP_HEIGHT = 20;
// Each kind has a height of its own: colour alone says nothing to some.
const KINDS = {
  ok: { of: ["SUCCEEDED"], height: 12 },
  bad: { of: ["FAILED", "TIMED_OUT"], height: 20 },
  odd: { of: ["KILLED"], height: 16 },
  info: { of: ["RUNNING", "LAUNCHED"], height: 8 },
  warn: { of: ["WAITING", "RETRYING"], height: 8 },
  none: { of: ["SKIPPED"], height: 3 },
};
export const KIND_OF = Object.fromEntries(Object.entries(KINDS).flatMap(([kind, { of }]) => of.map((state) => [state, kind])));

/** Returns the words for runs: "30 runs: 28 succeeded, 2 failed". */
export function stripWords(runs) {
  const counts = new Map();
  for (const { state } of runs) counts.set(state, (counts.get(state) ?? 0) + 1);
  const parts = [...counts].map(([state, count]) => `${count} ${stateWords(state)}`);
  return runs.length ? `${plural(runs.length, "run")}: ${parts.join(", ")}` : "No runs yet";
}

/** Returns the strip of runs, the newest first in `runs`. One path of each kind: lists show many strips. */
export function runStrip(runs, count = 30) {
  const paths = {};
  runs.slice(0, count).forEach(({ state }, at) => {
    const kind = KIND_OF[state] ?? "none";
    const x = (count - 1 - at) * STEP + 2;
    paths[kind] = `${paths[kind] ?? ""}M${x} ${STRIP_HEIGHT}V${STRIP_HEIGHT - KINDS[kind].height}`;
  });
  const words = stripWords(runs);
  return h(
    "svg",
    {
      class: "strip",
      viewBox: `0 0 ${count * STEP} ${STRIP_HEIGHT}`,
      width: count * STEP,
      height: STRIP_HEIGHT,
      role: "img",
      "aria-label": words,
    },
    Object.keys(KINDS).map((kind) => h("path", { class: `bar-${kind}`, d: paths[kind] ?? "" })),
    h("title", null, words),
  );
}
