/** A live cache: what was read of the API, read again when the cluster says that it changed. */

import { request } from "./api.js";
import { onChange } from "./changes.js";
import { health } from "./health.js";

const APART_MS = 500; // between two readings of one path at least,
const BUSY_MS = 2_000; // while more changes than are told one by one,
const SHARE = 8; // and so many times as long as the last reading took,
const SLOW_MS = 10_000; // but no longer than this: one slow answer does not make the page old
const KEEP_MS = 60_000; // what nobody shows is kept so long, for a step back

const resources = new Map(); // path -> Resource

/** What a path held when it was last read. */
export class Resource {
  data = undefined;
  error = null;
  at = 0; // ms since the epoch, of the reading
  stale = false; // the node could not know whether this is the newest
  loading = false;
  #path;
  #on;
  #every;
  #listeners = new Set();
  #reading = null;
  #began = -Infinity;
  #took = 0;
  #timer = 0;
  #poll = 0;
  #forget = 0;
  #due = true; // it may have changed since it was read
  #again = false; // asked for while a reading goes on
  #stop = null;

  constructor(path, { on = [], every = null } = {}) {
    this.#path = path;
    this.#on = new Set(on);
    this.#every = every;
  }

  /** Reads it again after these changes, too; and once more, as there may have been some since it was read. */
  alsoOn(kinds = []) {
    const { size } = this.#on;
    for (const kind of kinds) this.#on.add(kind);
    if (this.#on.size > size && this.at) this.touch();
  }

  /** Calls a function after each reading, until the function that is returned is called. */
  subscribe(listener) {
    this.#listeners.add(listener);
    clearTimeout(this.#forget);
    if (this.#listeners.size === 1) this.#begin();
    return () => {
      this.#listeners.delete(listener);
      if (!this.#listeners.size) this.#rest();
    };
  }

  /** Reads the path again, and returns a promise of the end of it. */
  reload() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#again = true;
    this.#reading ??= this.#readAll();
    return this.#reading;
  }

  /** Says that it may be something else by now: it is read soon, or when the page is seen again. */
  touch(apart = APART_MS) {
    this.#due = true;
    if (this.#reading || this.#timer || document.hidden || !this.#listeners.size) return;
    const wait = Math.max(0, this.#began + Math.max(apart, Math.min(SHARE * this.#took, SLOW_MS)) - performance.now());
    this.#timer = setTimeout(() => this.reload(), wait);
  }

  #begin() {
    this.#stop = onChange((change) => {
      if (change === null || this.#concerns(change)) this.touch(change?.more ? BUSY_MS : APART_MS);
    });
    if (this.#every) this.#poll = setInterval(() => this.touch(), this.#every);
    document.addEventListener("visibilitychange", this.#seen);
    this.touch();
  }

  #rest() {
    this.#stop?.();
    clearInterval(this.#poll);
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#due = true;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#forget = setTimeout(() => resources.delete(this.#path), KEEP_MS);
  }

  #seen = () => {
    if (!document.hidden && this.#due) this.touch();
  };

  #concerns(change) {
    for (const kind of this.#on) if (concerns(change, kind)) return true;
    return false;
  }

  async #readAll() {
    while (this.#again) {
      this.#again = false;
      this.#due = false;
      this.#began = performance.now();
      this.loading = true;
      const { node } = health;
      await this.#read();
      this.#took = health.node === node ? performance.now() - this.#began : 0; // waiting for a lost node says nothing
      for (const listener of [...this.#listeners]) listener(this);
    }
    this.#reading = null;
    if (this.#due) this.touch();
  }

  async #read() {
    try {
      const { data, stale } = await request("GET", this.#path);
      this.data = data;
      this.stale = stale;
      this.error = null;
      this.at = Date.now();
    } catch (error) {
      this.error = error;
    }
    this.loading = false;
  }
}

/**
 * Returns the resource of a path, the same for all who ask.
 *
 * @param {string} path with its query
 * @param {string[]} options.on kinds of changes after which it is read again; "job:ID" is one job with its runs,
 *   "runs-of:ID" the runs of a job, "run:ID" one run
 * @param {number|null} options.every ms after which it is read in any case
 */
export function watch(path, options) {
  let found = resources.get(path);
  if (found) found.alsoOn(options?.on);
  else resources.set(path, (found = new Resource(path, options)));
  return found;
}

/** Forgets all that was read: another token may see something else. */
export function forgetAll() {
  resources.clear();
}

/** Returns whether a change (see onChange) is about a kind: "jobs", "runs", ..., "job:ID", "runs-of:ID", "run:ID". */
export function concerns(change, kind) {
  const [group, id] = kind.split(":", 2);
  const { kinds, jobs, runs, ran, more } = change;
  if (group === "job") return more ? kinds.has("jobs") || kinds.has("runs") : jobs.has(id) || ran.has(id);
  if (group === "runs-of") return more ? kinds.has("runs") : ran.has(id);
  if (group === "run") return more ? kinds.has("runs") : runs.has(id);
  return kinds.has(kind);
}
