/** The workflow of a run, on its page: all runs that were started from its first one on. */

import { commonOf } from "../charts/graph.js";
import { card, shown, table } from "../components/basics.js";
import { plural } from "../core/format.js";
import { h } from "../core/vdom.js";
import { countsText, jobOf, workflowBadge, workflowColumns, workflowGraph, workflowLink } from "./workflow-parts.js";

/** Returns a card with the graph and the runs of a workflow, of which `view` is told when it changes. */
export function workflowCard(view, found, own) {
  if (!found) return null;
  return card(
    "Workflow",
    shown(found, ({ state, counts, items, next }) => [
      h("p", null, workflowBadge(state), " ", countsText(counts)),
      workflowGraph(
        view,
        items,
        items.find(({ id }) => id === own),
      ),
      table(workflowColumns(own, commonOf(items.map(jobOf))), items, {
        key: (row) => row.id,
        caption: "Runs of the workflow",
      }),
      next ? h("p", { class: "muted small-note" }, `The first ${plural(items.length, "run")} are shown.`) : null,
    ]),
    { actions: h("a", { class: "button", href: workflowLink(found.data ?? { id: own }) }, "Open the workflow") },
  );
}
