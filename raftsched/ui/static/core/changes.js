/**
 * What changed in the cluster, as the page hears of it: one stream of digests for all that is on the screen.
 *
 * A browser opens few connections to one node, so the visible tabs of one token share a stream: the tab that holds a
 * lock reads it, and tells the others. Where there are no locks (without https, away from loopback) each has its own.
 */

import { ApiProblem, stream } from "./api.js";

const POLL_MS = 2_000; // where there is no stream of changes

const listeners = new Set();
let running = null; // AbortController of the visible time
let asker = () => null; // what /v1/whoami says
let last; // id of the last digest that was heard of

/**
 * Calls a function with each digest of changes: `{kinds, jobs, runs, ran, more}`, all but the last of them sets. `ran`:
 * the jobs of the runs. `more`: any of the kinds may have changed, and ids are not listed. null: anything may have.
 *
 * @returns {() => void} stops it
 */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Follows the changes while the page is visible: a hidden page costs the cluster nothing.
 *
 * @param {() => object|null} who returns who asks: tabs of the same share a stream
 */
export function startChanges(who) {
  asker = who;
  document.addEventListener("visibilitychange", follow);
  follow();
}

/** Follows anew, with another token: what is shown was read with the one before. */
export function restart() {
  running?.abort();
  running = null;
  last = undefined;
  follow();
  tell(null);
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
  const who = asker();
  if (!navigator.locks || !who) return readChanges(signal, () => {});
  const name = `raftsched changes ${who.kind} ${who.name}`;
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => heard(data);
  signal.addEventListener("abort", () => channel.close());
  if (last !== undefined) tell(null); // the tab that reads the stream does not know since when this one was hidden
  try {
    const share = (said) => signal.aborted || channel.postMessage(said);
    await navigator.locks.request(name, { signal }, () => readChanges(signal, share));
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Reads the stream until the signal aborts. `share` is given all that is heard of. */
async function readChanges(signal, share) {
  const said = (one) => {
    share(one);
    heard(one);
  };
  while (!signal.aborted) {
    try {
      let lost = false;
      await stream("/v1/changes", {
        signal,
        headers: last === undefined ? {} : { "Last-Event-ID": last },
        onState: (up) => {
          if (up && lost) said({ data: null });
          lost = !up;
        },
        onEvent: ({ event, data, id }) => {
          if (event === "message") said({ data, id });
        },
      });
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      if (error.status === 401) return;
    }
    if (signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    said({ data: null });
  }
}

function heard({ data, id }) {
  if (id !== undefined) last = id;
  tell(data === null ? null : digest(JSON.parse(data)));
}

/** Returns a digest as listeners get it, of the data of /v1/changes. */
export function digest({ kinds, jobs, runs, more }) {
  const ran = new Set(runs.map((run) => run.slice(0, run.indexOf("@"))));
  return { kinds: new Set(kinds), jobs: new Set(jobs), runs: new Set(runs), ran, more };
}

function tell(change) {
  for (const listener of [...listeners]) listener(change);
}
