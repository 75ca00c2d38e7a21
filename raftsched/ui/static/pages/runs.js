/** All runs, the newest first, as they come. */

import { empty, heading, stateBadge } from "../components/basics.js";
import { ListPage, namespaceOf } from "../components/list-page.js";
import { savedFilters } from "../components/saved.js";
import { RowSelection, chosenBar, named, second, virtualList } from "../components/virtual-list.js";
import { define } from "../core/element.js";
import { absolute, ago, duration, executorOf, moment, stateWords, tookOf } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { END_STATE_NAME, INSTANCE_STATE_NAME } from "../core/words.js";
import { confirmSweep } from "./sweeps.js";

const RUN_LIST_FIELDS =
  "id,job_id,job_name,namespace,state,reason,scheduled_at,late_ms,started_at,ended_at,node,worker,attempt,manual,cause,dead_letter";
const LATE = [
  ["", "any"],
  ["true", "late"],
];
const STATE_GROUPS = [
  ["WAITING,LAUNCHED,RUNNING,RETRYING", "not ended"],
  ["FAILED,TIMED_OUT", "failed or timed out"],
];

const FINAL_STATES = new Set(END_STATE_NAME);
const RUN_ORDERS = {
  job: (row) => `${row.job_name ?? row.job_id}`,
  state: (row) => row.state,
  took: tookOf,
  node: (row) => executorOf(row),
};

export class RunsPage extends ListPage {
  connected() {
    this.selection = new RowSelection(() => (this.update(), this.drawn()?.update()));
    super.connected();
  }

  opened() {
    this.selection?.chooseAll(false);
  }

  filters() {
    const found = { namespace: namespaceOf(this.query) };
    for (const name of ["job", "state", "node", "worker", "late", "from", "to"]) found[name] = this.query.get(name) || undefined;
    return found;
  }

  options() {
    return {
      path: "/v1/instances",
      query: this.filters(),
      fields: RUN_LIST_FIELDS,
      compare: compareRuns,
      kinds: ["runs"],
      touched: ({ runs }) => runs,
      made: ({ runs }) => runs,
    };
  }

  render() {
    const { list, selection } = this;
    const may = session.may("instances_kill") || session.may("instances_rerun");
    const nodes = this.watch("/v1/nodes", { on: ["cluster"] }).data?.items ?? [];
    const choices = [
      ["", "any"],
      ...STATE_GROUPS,
      ...INSTANCE_STATE_NAME.map((state) => [state, stateWords(state)]),
    ];
    return [
      heading("Runs", { below: h("p", { class: "muted", role: "status" }, this.counted("run", RUN_ORDERS)) }),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Runs", onsubmit: (event) => event.preventDefault() },
        this.search("job", "Job", "namespace/name, or id"),
        this.field("namespace", "Namespace", { choices: this.namespaces() }),
        this.field("state", "State", { choices }),
        this.field("node", "Node", { choices: [["", "any"], ...nodes.map(({ id }) => [id, id])] }),
        this.field("late", "Start", { choices: LATE }),
        this.time("from", "From"),
        this.time("to", "To"),
      ),
      savedFilters(this.query),
      this.trouble(),
      selection.all || selection.ids.size ? this.#chosen() : null,
      list.ready && !list.length
        ? empty(
            "No runs here",
            "A run appears when a job is due, or when somebody starts it. Take a filter away to see others.",
            h("a", { class: "button", href: "/ui/jobs" }, "Show the jobs"),
          )
        : virtualList({
            list: this.ordered(RUN_ORDERS),
            label: "Runs",
            columns: RUN_COLUMNS,
            open: addressOfRun,
            selection: may ? selection : null,
            sort: this.query.get("sort"),
            onsort: this.sortBy,
          }),
    ];
  }

  /** Returns what can be done with the runs that are chosen. */
  #chosen() {
    const { list, selection } = this;
    const rows = selection.all ? list.rows : [...selection.ids].map((id) => list.get(id)).filter(Boolean);
    const over = rows.filter((row) => FINAL_STATES.has(row.state) && row.attempt).map((row) => row.id);
    const live = rows.filter((row) => !FINAL_STATES.has(row.state)).map((row) => row.id);
    const filter = selection.all ? this.#killed() : null;
    const act = (kind, target, which) => async () => {
      if (await confirmSweep(kind, target, which)) selection.chooseAll(false);
    };
    const loaded = selection.all && !list.done ? "loaded here" : "chosen";
    return chosenBar(selection, "run", this.counted("run"), [
      ["Rerun", over.length, session.may("instances_rerun"), act("rerun", over, `that ended, of those ${loaded}`)],
      filter
        ? ["Kill all", null, session.may("kills_kill_matching"), act("kill", filter, "that have not ended, of all that match")]
        : ["Kill", live.length, session.may("instances_kill"), act("kill", live, `that have not ended, of those ${loaded}`)],
    ]);
  }

  /** Returns the filters as those of a kill; null where it cannot go by them: it needs a job or a namespace. */
  #killed() {
    const { namespace, job, state, node, worker, late, ...rest } = this.filters();
    if (node || worker || late || !(namespace || job)) return null;
    const states = state?.split(",").filter((one) => !FINAL_STATES.has(one));
    if (states && !states.length) return null;
    const filter = { namespace, job, state: states, ...rest };
    return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
  }
}
define("rs-runs-page", RunsPage);

function addressOfRun(row) {
  return `/ui/runs/${encodeURIComponent(row.id)}`;
}

/** Orders runs as the API lists them: the newest scheduled time first. */
export function compareRuns(a, b) {
  const [x, y] = [orderOf(a), orderOf(b)];
  return x[0] - y[0] || (x[1] < y[1] ? 1 : x[1] > y[1] ? -1 : 0);
}

function orderOf(row) {
  row.order ??= (([job, at]) => {
    const [time, request = ""] = at.split("-");
    return [-Number(time), job + request];
  })(row.id.split("@"));
  return row.order;
}

function late({ late_ms: ms }) {
  return ms >= 1000 ? `${duration(ms)} late` : "";
}

const RUN_COLUMNS = [
  {
    title: "Job",
    by: "job",
    class: "col-name",
    cell: (row) => [
      named(row.job_name ?? row.job_id, addressOfRun(row)),
      second([row.namespace ?? "deleted", row.manual ? "started by hand" : row.cause ? "follows another" : null]),
    ],
  },
  {
    title: "State",
    by: "state",
    class: "col-state",
    cell: ({ state, reason, dead_letter: dead }) => [
      stateBadge(state),
      second([dead ? "dead letter" : stateWords(reason)]),
    ],
  },
  {
    title: "Due",
    class: "col-next",
    cell: ({ scheduled_at: iso }) => {
      const at = moment(iso);
      const title = absolute(at, undefined, { millis: true });
      return [h("time", { datetime: iso, title }, ago(at)), second([absolute(at)])];
    },
  },
  {
    title: "Took",
    by: "took",
    class: "col-took number",
    cell: (row) => [h("span", null, duration(tookOf(row))), second([late(row)])],
  },
  {
    title: "Node",
    by: "node",
    class: "col-node",
    cell: (run) => [
      h("span", { title: executorOf(run) }, executorOf(run)),
      second([run.attempt > 1 ? `attempt ${run.attempt}` : null]),
    ],
  },
];
