/** One workflow: its graph with the state of each run, its runs on one axis of time, and as a table. */

import { commonOf } from "../charts/graph.js";
import { asOf, card, copyButton, facts, heading, loading, problem, table, timeOf } from "../components/basics.js";
import { confirmDialog } from "../components/dialog.js";
import { post } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { duration, moment, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { ENDED } from "./job/phases.js";
import { runPath } from "./job/paths.js";
import { countsText, jobOf, workflowBadge, workflowBars, workflowColumns, workflowGraph, workflowOf, workflowPath } from "./workflow-parts.js";

const GROWS_MS = 1_000;
const BAD = new Set(["FAILED", "TIMED_OUT", "KILLED"]);

export class WorkflowPage extends Page {
  connected() {
    this.on(session, "change", () => this.update());
    const timer = setInterval(() => !document.hidden && this.#going && this.update(), GROWS_MS);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  #going = false;

  render() {
    const { id } = this.params;
    const found = workflowOf(this, { id, root: id });
    const { data, error } = found;
    if (!data) return [heading("Workflow"), error ? problem(error) : loading()];
    const { items, state, counts, next } = data;
    this.#going = state === "running";
    const name = data.job ?? data.id;
    document.title = `Workflow ${name} · raftsched`;
    const common = commonOf(items.map(jobOf));
    return [
      heading([`${name} `, workflowBadge(state)], {
        above: [h("a", { href: "/ui/workflows" }, "Workflows"), " / ", h("code", null, data.id), " ", copyButton(data.id, "Copy the id")],
        actions: this.#actions(data),
      }),
      asOf(found),
      h("section", { class: "card", "aria-label": "Facts" }, factsOf(data)),
      card("Graph", [
        workflowGraph(this, items),
        common ? h("p", { class: "muted small-note" }, `All in ${common.slice(0, -1)}. A box leads to its run.`) : null,
      ]),
      card("Time", [
        workflowBars(items),
        h("p", { class: "muted small-note" }, "A thin line: it waited. A bar: it ran.", this.#going ? " The line on the right is now." : ""),
      ]),
      card(`Runs: ${countsText(counts)}`, [
        table([...workflowColumns(null, common), this.#again()], items, { key: (row) => row.id, caption: "Runs of the workflow" }),
        next ? h("p", { class: "muted small-note" }, `The first ${plural(items.length, "run")} are shown.`) : null,
      ]),
    ];
  }

  #actions({ id, state, items, job }) {
    const namespace = job?.split("/")[0];
    const rerun = session.may("instances_rerun", namespace);
    const failed = firstFailed(items);
    const first = items.find(({ cause }) => !cause);
    const button = (text, title, body, run, danger = false) =>
      h(
        "button",
        {
          type: "button",
          key: text,
          class: danger ? "danger" : "",
          onclick: () => confirmDialog({ title, body, action: text, danger, run }),
        },
        text,
      );
    return [
      rerun && failed.length
        ? button(
            "Rerun failed",
            `Rerun ${plural(failed.length, "failed run")}?`,
            `${failed.map(jobOf).join(", ")}: each runs again, and then what follows it.`,
            async () => {
              for (const run of failed) await again(run);
            },
          )
        : null,
      rerun && first && state !== "running"
        ? button("Rerun all", "Rerun the workflow from its first run on?", "Each of its runs runs again, after those that it follows.", () => again(first))
        : null,
      state === "running" && session.may("workflows_kill", namespace)
        ? button(
            "Kill",
            "Kill the workflow?",
            "All of its runs that are active are asked to end, and nothing more of it starts.",
            () => post(`${workflowPath({ id })}/kill`),
            true,
          )
        : null,
    ];
  }

  /** Returns the column by which a run is run again with all that follows it. */
  #again() {
    const ask = (run) =>
      confirmDialog({
        title: `Rerun ${jobOf(run)} and all that follows it?`,
        body: "Each run downstream of it runs again, after those that it follows.",
        action: "Rerun",
        run: () => again(run),
      });
    return {
      title: h("span", { class: "sr" }, "Actions"),
      cell: (run) =>
        ENDED.has(run.state) && session.may("instances_rerun", run.job?.split("/")[0])
          ? h(
              "button",
              { type: "button", class: "small", "aria-label": `Rerun ${jobOf(run)} and downstream`, onclick: () => ask(run) },
              "Rerun downstream",
            )
          : null,
    };
  }
}
define("rs-workflow-page", WorkflowPage);

function again(run) {
  return post(`${runPath(run)}/rerun`, { downstream: true });
}

/** Returns the runs that failed and follow none that did: to run these again is enough. */
export function firstFailed(items) {
  const bad = new Set(items.filter(({ state }) => BAD.has(state)).map(({ id }) => id));
  const causes = new Map(items.map((run) => [run.id, run.joined ?? (run.cause ? [run.cause] : [])]));
  const behind = (id, seen = new Set()) =>
    (causes.get(id) ?? []).some((one) => !seen.has(one) && (bad.has(one) || behind(one, seen.add(one))));
  return items.filter(({ id }) => bad.has(id) && !behind(id));
}

function factsOf({ scheduled_at, state, items, reruns, killed_at, counts, exact }) {
  const starts = items.map((run) => moment(run.started_at)).filter(Boolean);
  const began = starts.length ? Math.min(...starts) : null;
  const ended = state === "running" ? null : Math.max(...items.map((run) => moment(run.ended_at) ?? 0));
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  return facts([
    ["Scheduled", timeOf(scheduled_at)],
    ["Started", began === null ? null : timeOf(began)],
    ["Ended", ended ? timeOf(ended) : null],
    ["Took", began === null ? null : duration((ended ?? Date.now()) - began)],
    ["Ended runs", `${all - counts.active} of ${all}${exact ? "" : " or more"}`],
    ["Reruns", reruns || null],
    ["Killed", killed_at ? timeOf(killed_at) : null],
  ]);
}
