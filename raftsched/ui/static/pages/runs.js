/** All runs, the newest first, as they come. */

import { empty, heading, stateBadge } from "../components/basics.js";
import { ListPage, namespaceOf } from "../components/list-page.js";
import { virtualList } from "../components/virtual-list.js";
import { define } from "../core/element.js";
import { absolute, ago, duration, executorOf, moment } from "../core/format.js";
import { h } from "../core/vdom.js";
import { INSTANCE_STATE_NAME } from "../core/words.js";

const RUN_LIST_FIELDS =
  "id,job_id,job_name,namespace,state,reason,scheduled_at,late_ms,started_at,ended_at,node,worker,attempt,manual,cause,dead_letter";
const STATE_GROUPS = [
  ["WAITING,LAUNCHED,RUNNING,RETRYING", "not ended"],
  ["FAILED,TIMED_OUT", "failed or timed out"],
];

export class RunsPage extends ListPage {
  filters() {
    const found = { namespace: namespaceOf(this.query) };
    for (const name of ["job", "state", "node", "worker", "from", "to"]) found[name] = this.query.get(name) || undefined;
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
    const { list } = this;
    const nodes = this.watch("/v1/nodes", { on: ["cluster"] }).data?.items ?? [];
    const choices = [
      ["", "any"],
      ...STATE_GROUPS,
      ...INSTANCE_STATE_NAME.map((state) => [state, state.toLowerCase().replace("_", " ")]),
    ];
    return [
      heading("Runs", { below: h("p", { class: "muted", role: "status" }, this.counted("run")) }),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Runs", onsubmit: (event) => event.preventDefault() },
        this.search("job", "Job", "namespace/name, or id"),
        this.field("namespace", "Namespace", { choices: this.namespaces() }),
        this.field("state", "State", { choices }),
        this.field("node", "Node", { choices: [["", "any"], ...nodes.map(({ id }) => [id, id])] }),
        this.time("from", "From"),
        this.time("to", "To"),
      ),
      this.trouble(),
      list.ready && !list.length
        ? empty(
            "No runs here",
            "Runs appear when a job is due or is asked to run. Take a filter away to see others.",
            h("a", { class: "button", href: "/ui/jobs" }, "Show the jobs"),
          )
        : virtualList({ list, label: "Runs", columns: RUN_COLUMNS, open: addressOfRun }),
    ];
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

function took({ started_at: began, ended_at: ended }) {
  const from = moment(began);
  return from === null ? "–" : duration(Math.max(0, (moment(ended) ?? Date.now()) - from));
}

function late({ late_ms: ms }) {
  return ms >= 1000 ? `${duration(ms)} late` : "";
}

const RUN_COLUMNS = [
  {
    title: "Job",
    class: "col-name",
    cell: (row) => [
      h("a", { href: addressOfRun(row), tabindex: "-1" }, row.job_name ?? row.job_id),
      h("span", { class: "second" }, row.namespace ?? "deleted", row.manual ? " · asked for" : row.cause ? " · follows" : ""),
    ],
  },
  {
    title: "State",
    class: "col-state",
    cell: ({ state, reason, dead_letter: dead }) => [
      stateBadge(state),
      h("span", { class: "second", title: reason ?? "" }, dead ? "dead letter" : (reason ?? "").replaceAll("_", " ")),
    ],
  },
  {
    title: "Scheduled",
    class: "col-next",
    cell: ({ scheduled_at: iso }) => {
      const at = moment(iso);
      const title = absolute(at, undefined, { millis: true });
      return [h("time", { datetime: iso, title }, ago(at)), h("span", { class: "second" }, absolute(at))];
    },
  },
  {
    title: "Took",
    class: "col-took number",
    cell: (row) => [h("span", null, took(row)), h("span", { class: "second" }, late(row))],
  },
  {
    title: "Node",
    class: "col-node",
    cell: (run) => [
      h("span", null, executorOf(run)),
      h("span", { class: "second" }, run.attempt > 1 ? `attempt ${run.attempt}` : ""),
    ],
  },
];
