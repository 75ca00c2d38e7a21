/** All workflows, those of the newest scheduled time first, as they come. */

import { empty, heading } from "../components/basics.js";
import { ListPage, namespaceOf } from "../components/list-page.js";
import { savedFilters } from "../components/saved.js";
import { named, second, virtualList } from "../components/virtual-list.js";
import { get } from "../core/api.js";
import { define } from "../core/element.js";
import { absolute, ago, duration, moment, plural } from "../core/format.js";
import { h } from "../core/vdom.js";
import { compareRuns } from "./runs.js";
import { countsText, workflowBadge, workflowLink, workflowPath } from "./workflow-parts.js";

const WORKFLOW_STATES = ["running", "succeeded", "failed", "killed"];
const TIMES_MAX = 500; // workflows whose times are kept

export class WorkflowsPage extends ListPage {
  #times = new Map(); // what a workflow was like -> {from, to}; null while that is being read
  #columns = WORKFLOW_COLUMNS.map((one) => ({ ...one, cell: (row) => one.cell(row, this.#times.get(keyOf(row))) }));
  #rest = (rows) => this.#learn(rows);

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

  /** Reads when the workflows on the screen began and ended. */
  async #learn(rows) {
    const wanted = rows.filter((row) => row.state !== "running" && !this.#times.has(keyOf(row)));
    if (this.#times.size > TIMES_MAX) this.#times.clear();
    for (const row of wanted) this.#times.set(keyOf(row), null);
    for (const row of wanted) {
      try {
        const { items, next } = await get(workflowPath(row), { limit: 1000 }, { signal: this.signal });
        const ends = items.map((run) => moment(run.ended_at) ?? 0);
        const starts = items.map((run) => moment(run.started_at)).filter(Boolean);
        this.#times.set(keyOf(row), { from: Math.min(...starts), to: Math.max(...ends), more: Boolean(next) });
      } catch {
        this.#times.delete(keyOf(row));
      }
      this.drawn()?.update();
    }
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
        : virtualList({ list, label: "Workflows", columns: this.#columns, open: workflowLink, onrest: this.#rest }),
    ];
  }
}
define("rs-workflows-page", WorkflowsPage);

/** A workflow that ran on has other counts, and so other times. */
function keyOf({ id, reruns, counts }) {
  return `${id} ${reruns} ${Object.values(counts)}`;
}

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
    cell: ({ state, scheduled_at: iso }, times) => {
      if (state === "running") return duration(Math.max(0, Date.now() - moment(iso)));
      return times ? `${times.more ? "at least " : ""}${duration(times.to - times.from)}` : "…";
    },
  },
];
