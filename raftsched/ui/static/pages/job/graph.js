/** The jobs that a job waits for, and those that it starts: in words, and drawn. */

import { jobGraph } from "../../charts/graph.js";
import { asOf, card, empty, loading, problem } from "../../components/basics.js";
import { View, define } from "../../core/element.js";
import { h } from "../../core/vdom.js";
import { kindsOf } from "./paths.js";

const LISTED = 8;
const LOOK_MS = 30_000; // other jobs may come to follow this one without a change of it
const ENDS = { succeeded: "has succeeded", failed: "has failed", ended: "has ended" };

/** Returns the name by which the graph has a job. */
function fullName({ namespace, name, id }) {
  return `${namespace}/${name ?? id}`;
}

/** Returns the graph around a job, of which `view` is told when it changes. */
export function graphOf(view, job) {
  return view.watch(`/v1/jobs:graph?job=${encodeURIComponent(job.id)}`, { on: kindsOf(job), every: LOOK_MS });
}

/** Returns the facts of a job about what it follows and what it starts. */
export function graphFacts(job, graph) {
  const own = fullName(job);
  const { edges = [], jobs = [] } = graph ?? {};
  const ids = new Map(jobs.map(({ name, id }) => [name, id]));
  return [
    ["Runs after", links(edges.filter(({ to }) => to === own), "from", ids)],
    ["Starts", links(edges.filter(({ from, kind }) => from === own && kind === "after"), "to", ids)],
  ];
}

function links(edges, end, ids) {
  if (!edges.length) return null;
  const shown = edges.slice(0, LISTED).map((edge, at) => {
    const name = edge[end];
    const id = ids.get(name);
    const words = edge.kind === "condition" ? " (condition)" : edge.on === "succeeded" ? "" : ` (${ENDS[edge.on]})`;
    return [
      at ? ", " : null,
      id
        ? h("a", { key: name, href: `/ui/jobs/${encodeURIComponent(id)}` }, name)
        : h("span", { key: name, class: "muted" }, `${name}, which does not exist`),
      words,
    ];
  });
  const first = end === "from" && edges[0].mode === "any" ? "the first of " : null;
  const more = edges.length - LISTED;
  return [first, shown, more > 0 ? ` and ${more} more` : null];
}

class JobGraph extends View {
  #job = null;

  set job(job) {
    this.#job = job;
    this.update();
  }

  render() {
    const found = graphOf(this, this.#job);
    const { data, error } = found;
    if (!data) return error ? problem(error) : loading();
    const body = data.edges.length
      ? [
          jobGraph(data, fullName(this.#job)),
          h(
            "p",
            { class: "muted small-note" },
            "Dashed: a condition, or one of several of which the first is enough. Red: after a failure.",
            data.complete ? "" : " There is more than is drawn.",
          ),
        ]
      : empty("It follows no job, and none follows it.", 'A trigger such as {"after": {"job": "…"}} makes it follow one.');
    return h("div", { class: "stack" }, asOf(found), card("Which jobs follow which", body));
  }
}
define("rs-job-graph", JobGraph);

/** Returns what a job waits for and what it starts, drawn. */
export function jobGraphTab(job) {
  return h("rs-job-graph", { ".job": job });
}
