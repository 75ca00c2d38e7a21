/** What changed in the cluster, as the page hears of it: one stream for all that is on the screen. */

import { ApiProblem, stream } from "./api.js";

const POLL_MS = 2_000; // where there is no stream of changes

const listeners = new Set();
let running = null;

/**
 * Calls a function with each digest of changes: `{kinds: Set, jobs: Set, runs: Set, more: boolean}`. `more`: the ids are
 * not all that changed. null: anything may have changed.
 *
 * @returns {() => void} stops it
 */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows the changes while the page is visible: a hidden page costs the cluster nothing. */
export function start() {
  document.addEventListener("visibilitychange", follow);
  follow();
}

/** Follows anew, with another token. */
export function restart() {
  running?.abort();
  running = null;
  follow();
}

function follow() {
  if (document.hidden) {
    running?.abort();
    running = null;
  } else if (!running) {
    running = new AbortController();
    run(running.signal);
  }
}

async function run(signal) {
  while (!signal.aborted) {
    try {
      let again = true; // whatever changed before the stream began
      await stream("/v1/changes", {
        signal,
        onState: (up) => {
          if (up && again) tell(null);
          again = !up;
        },
        onEvent: ({ event, data }) => {
          if (event === "message") tell(digest(JSON.parse(data)));
        },
      });
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      if (error.status === 401) return;
    }
    if (signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    tell(null);
  }
}

function digest(data) {
  return { kinds: new Set(data.kinds), jobs: new Set(data.jobs), runs: new Set(data.runs), more: data.more };
}

function tell(change) {
  for (const listener of [...listeners]) listener(change);
}
