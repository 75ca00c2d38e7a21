/** All workflows, those of the newest scheduled time first, as they come. */

import { empty, heading } from "../components/basics.js";
import { ListPage, namespaceOf } from "../components/list-page.js";
import { savedFilters } from "../components/saved.js";
import { named, second, virtualList } from "../components/virtual-list.js";
import { define } from "../core/element.js";
import { absolute, ago, duration, moment, plural, tookOf } from "../core/format.js";
import { h } from "../core/vdom.js";
import { compareRuns } from "./runs.js";
import { countsText, workflowBadge, workflowLink } from "./workflow-parts.js";

const WORKFLOW_STATES = ["running", "succeeded", "failed", "killed"];

export class WorkflowsPage extends ListPage {
  filters() {
    const found = { namespace: namespaceOf(this.query) };
    for (const name of ["job", "state", "from", "to"]) found[name] = this.query.get(name) || undefined;
    return found;
  }

  options() {
    return {
      path: "/v1/workflows",
      query: this.filters(),
      compare: compareRuns,
      kinds: ["runs"],
      touched: ({ runs }) => runs,
      made: ({ runs }) => runs, // any run may be one of a workflow
    };
  }

  render() {
    const { list } = this;
    const choices = [["", "any"], ...WORKFLOW_STATES.map((state) => [state, state])];
    return [
      heading("Workflows", { below: h("p", { class: "muted", role: "status" }, this.counted("workflow")) }),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Workflows", onsubmit: (event) => event.preventDefault() },
        this.search("job", "Job of the first run", "namespace/name, or id"),
        this.field("namespace", "Namespace", { choices: this.namespaces() }),
        this.field("state", "State", { choices }),
        this.time("from", "From"),
        this.time("to", "To"),
      ),
      savedFilters(this.query),
      this.trouble(),
      list.ready && !list.length
        ? empty(
            "No workflows here",
            "A workflow is a run and all runs that its end started: a job follows another one by a trigger such as " +
              '{"after": {"job": "…"}}.',
          )
        : virtualList({ list, label: "Workflows", columns: WORKFLOW_COLUMNS, open: workflowLink }),
    ];
  }
}
define("rs-workflows-page", WorkflowsPage);

const WORKFLOW_COLUMNS = [
  {
    title: "First job",
    class: "col-name",
    cell: (row) => [
      named(row.job?.split("/").at(-1) ?? row.id, workflowLink(row)),
      second([row.job?.split("/")[0], row.reruns ? `rerun ${plural(row.reruns, "time")}` : ""]),
    ],
  },
  { title: "State", class: "col-state", cell: ({ state }) => workflowBadge(state) },
  {
    title: "Runs",
    class: "col-node",
    cell: ({ counts, exact }) => {
      const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
      return [
        h("span", null, `${all - counts.active} of ${all}${exact ? "" : " or more"} ended`),
        second([countsText(counts)]),
      ];
    },
  },
  {
    title: "Started",
    class: "col-next",
    cell: ({ scheduled_at: iso }) => {
      const at = moment(iso);
      return [h("time", { datetime: iso, title: iso }, ago(at)), second([absolute(at)])];
    },
  },
  {
    title: "Took",
    class: "col-took number",
    cell: (row) => (row.ended_at || row.state === "running" ? duration(tookOf(row)) : "–"),
  },
];
