/** Jobs that are created together: sent as one request, with the result of each. */

import { card, problem, table } from "../../components/basics.js";
import { post, randomKey } from "../../core/api.js";
import { plural } from "../../core/format.js";
import { h } from "../../core/vdom.js";

const SHOWN_MAX = 500;

/** Creates jobs. Sent again after a lost answer it has the same key, so that nothing is made twice. */
export class Batch {
  items = null; // the results, in the order of the jobs
  error = null;
  busy = false;
  #key = null;
  #body = "";

  async send(jobs, update) {
    const body = JSON.stringify(jobs);
    if (body !== this.#body) this.#key = randomKey();
    this.#body = body;
    Object.assign(this, { busy: true, error: null, items: null });
    update();
    try {
      this.items = (await post("/v1/jobs:batch", body, { idempotency: this.#key })).items;
    } catch (error) {
      this.error = error;
    }
    this.busy = false;
    update();
  }

  /** Returns how many were made, were there before, and were refused. */
  get counts() {
    const count = (test) => (this.items ?? []).filter(test).length;
    return {
      made: count((one) => one.status === 201),
      known: count((one) => one.status === 200),
      refused: count((one) => one.status >= 400),
    };
  }

  /** Returns the outcome in words, or the error of the whole. */
  summary() {
    if (this.error) return problem(this.error);
    if (!this.items) return null;
    const { made, known, refused } = this.counts;
    return h(
      "p",
      { class: refused ? "warning" : "notice", role: "status" },
      `${plural(made, "job")} created`,
      known ? `, ${known} there before` : "",
      refused ? `, ${refused} refused` : "",
      ". ",
      h("a", { href: "/ui/jobs" }, "Show the jobs"),
    );
  }

  /** Returns a table of the jobs with their results. */
  table(jobs) {
    const rows = jobs.slice(0, SHOWN_MAX).map((job, at) => ({ at, job, result: this.items?.[at] }));
    return [
      table(
        [
          { title: "#", number: true, cell: ({ at }) => at + 1 },
          { title: "Name", cell: ({ job }) => job?.name ?? h("span", { class: "muted" }, "no name") },
          { title: "Namespace", cell: ({ job }) => job?.namespace ?? "default" },
          { title: "Result", cell: ({ result }) => resultOf(result) },
        ],
        rows,
        { key: ({ at }) => at, caption: "Jobs" },
      ),
      jobs.length > SHOWN_MAX
        ? h("p", { class: "muted small-note" }, `and ${plural(jobs.length - SHOWN_MAX, "more")}`)
        : null,
    ];
  }
}

/** Returns the result of one job. */
export function resultOf(result) {
  if (!result) return h("span", { class: "muted" }, "not sent");
  if (result.status < 400) {
    const words = result.status === 201 ? "✓ created" : "✓ there before";
    return h("a", { href: `/ui/jobs/${result.id}` }, words);
  }
  const errors = (result.errors ?? []).map((one) => `${one.pointer} ${one.detail}`);
  return h("span", { class: "bad" }, "✕ ", errors.length ? errors.join("; ") : result.detail);
}

/** Returns what is shown in place of the form where the JSON is of several jobs. */
export function manyJobs(jobs, batch, may) {
  return card(plural(jobs.length, "job"), [
    h("p", { class: "muted" }, "They are created together, each by itself: one that is refused keeps no other out."),
    batch.table(jobs),
    h(
      "div",
      { class: "editor-save" },
      h("button", { type: "submit", class: "primary", disabled: batch.busy || !jobs.length || !may }, "Create them"),
      batch.summary(),
    ),
  ]);
}
