/** The runs of a job as they were read: the newest stay live, older ones are added by hand. */

import { get } from "../../core/api.js";
import { jobPath, runPath } from "./paths.js";
import { ENDED } from "./phases.js";

/** The fields of a run that the page shows. */
export const RUN_FIELDS =
  "id,state,scheduled_at,late_ms,manual,cause,node,attempt,ended_at,error,reason,dead_letter,created_at,skipped,attempts";

/** Runs of one job, in one choice of states. */
export class RunHistory {
  items = []; // the newest first
  error = null;
  more = null; // where older ones go on
  busy = false;
  #held = new Map();
  #path;
  #state;
  #begun = false;

  constructor(id, state) {
    this.#path = `${jobPath({ id })}/instances`;
    this.#state = state;
  }

  /** Reads runs that are older than those that are held. */
  async older(limit, signal) {
    if (this.busy) return;
    this.busy = true;
    try {
      const page = await get(
        this.#path,
        { limit, fields: RUN_FIELDS, state: this.#state, cursor: this.more },
        { signal },
      );
      this.#add(page.items);
      this.more = page.next;
      this.#begun = true;
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.busy = false;
  }

  /** Takes up a page of the newest runs: what is not in it any more, and as new, is gone. */
  newest({ items, next }) {
    const low = next && items.length ? items.at(-1).scheduled_at : "";
    const there = new Set(items.map((run) => run.id));
    for (const run of this.items) {
      if (run.scheduled_at > low && !there.has(run.id)) this.#held.delete(run.id);
    }
    if (!this.#begun) this.more = next;
    this.#add(items);
  }

  /** Reads the runs again that had not ended and are older than the newest page. */
  async refresh(page, signal) {
    const there = new Set(page.items.map((run) => run.id));
    const open = this.items.filter((run) => !ENDED.has(run.state) && !there.has(run.id)).slice(-20);
    const read = await Promise.all(open.map((run) => get(runPath(run), null, { signal }).catch(() => run)));
    if (read.length) this.#add(read);
    return read.length > 0;
  }

  #add(items) {
    for (const run of items) this.#held.set(run.id, run);
    this.items = [...this.#held.values()].sort(
      (a, b) => compare(b.scheduled_at, a.scheduled_at) || compare(b.id, a.id),
    );
  }
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
