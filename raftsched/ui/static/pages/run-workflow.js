/** The workflow of a run: all runs that were started from its first one on. */

import { card, shown, stateBadge, table, timeOf } from "../components/basics.js";
import { h } from "../core/vdom.js";
import { plural } from "../core/format.js";

const SHOWN = 100;
const COUNTED = ["active", "succeeded", "failed", "timed_out", "killed", "skipped"];

/** Returns the path of a workflow in the API. */
export function workflowPath({ root, id }) {
  return `/v1/workflows/${encodeURIComponent(root ?? id)}`;
}

/** Returns the workflow of a run, of which `view` is told when it changes; null: it is of none. */
export function workflowOf(view, one) {
  return one.root ? view.watch(`${workflowPath(one)}?limit=${SHOWN}`, { every: 2_000, on: [`run:${one.id}`] }) : null;
}

/** Returns a card with the runs of a workflow. */
export function workflowCard(found, own) {
  if (!found) return null;
  return card(
    "Workflow",
    shown(found, ({ state, counts, items, next }) => [
      h(
        "p",
        null,
        stateBadge(state.toUpperCase()),
        " ",
        COUNTED.filter((name) => counts[name])
          .map((name) => `${counts[name]} ${name.replaceAll("_", " ")}`)
          .join(", "),
      ),
      table(columns(own), items, { key: (row) => row.id, caption: "Runs of the workflow" }),
      next ? h("p", { class: "muted small-note" }, `The first ${plural(items.length, "run")} are shown.`) : null,
    ]),
  );
}

function columns(own) {
  return [
    {
      title: "Job",
      cell: (row) =>
        row.id === own
          ? h("strong", null, row.job ?? row.job_id)
          : h("a", { href: `/ui/runs/${encodeURIComponent(row.id)}` }, row.job ?? row.job_id),
    },
    { title: "State", cell: (row) => stateBadge(row.state) },
    { title: "Started", cell: (row) => timeOf(row.started_at) },
    { title: "Ended", cell: (row) => timeOf(row.ended_at) },
  ];
}
