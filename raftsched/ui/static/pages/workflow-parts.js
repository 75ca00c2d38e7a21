/** A workflow in pictures: its graph with the state of each run, and its runs on one axis of time. */

import { MARKS, stateBadge, timeOf } from "../components/basics.js";
import { commonOf, jobGraph } from "../charts/graph.js";
import { timeline } from "../charts/timeline.js";
import { duration, executorOf, moment, stateWords, tookOf } from "../core/format.js";
import { h } from "../core/vdom.js";
import { ENDED } from "./job/phases.js";

const WORKFLOW_RUNS = 200; // read of one workflow
const COUNTED = ["active", "succeeded", "failed", "timed_out", "killed", "skipped"];

/** Returns the path of a workflow in the API. */
export function workflowPath({ root, id }) {
  return `/v1/workflows/${encodeURIComponent(root ?? id)}`;
}

/** Returns the address of the page of a workflow. */
export function workflowLink({ root, id }) {
  return `/ui/workflows/${encodeURIComponent(root ?? id)}`;
}

/** Returns the workflow of a run, of which `view` is told when it changes; null: it is of none. */
export function workflowOf(view, one) {
  if (!one.root) return null;
  const path = `${workflowPath(one)}?limit=${WORKFLOW_RUNS}`;
  const found = view.watch(path, { on: [`run:${one.id}`, `run:${one.root}`] });
  const { items = [], state } = found.data ?? {};
  const kinds = items.map(({ id }) => `run:${id}`);
  // While it runs, jobs that follow those of its runs may get runs of it, too.
  const jobs = state === "running" ? jobsOfGraph(view, items).map(({ id }) => `runs-of:${id}`) : [];
  return view.watch(path, { on: [...kinds, ...jobs] });
}

function graphAround(view, items) {
  const first = items.find(({ cause }) => !cause) ?? items[0];
  return first && view.watch(`/v1/jobs:graph?job=${encodeURIComponent(first.job_id)}`, { on: [`job:${first.job_id}`] }).data;
}

function jobsOfGraph(view, items) {
  return graphAround(view, items)?.jobs.filter(({ id }) => id) ?? [];
}

/** Returns the counts of a workflow in words: "7 succeeded, 1 failed". */
export function countsText(counts) {
  return COUNTED.filter((name) => counts[name])
    .map((name) => `${counts[name]} ${name.replaceAll("_", " ")}`)
    .join(", ");
}

/** Returns the state of a workflow as a badge. */
export function workflowBadge(state) {
  return stateBadge(state.toUpperCase());
}

/** Returns the name of a run's job. */
export function jobOf(run) {
  return run.job ?? run.job_id;
}

/** Returns what of the graph around the first job belongs to a workflow: what follows it, and what has a run. */
export function graphOfRuns(graph, items) {
  const byId = new Map(items.map((run) => [run.id, run]));
  const names = new Set(items.map(jobOf));
  const first = items.find(({ cause }) => !cause);
  if (first) names.add(jobOf(first));
  const known = graph?.edges.filter(({ kind }) => kind === "after") ?? [];
  for (const name of names) for (const { from, to } of known) if (from === name) names.add(to);
  const edges = known.filter(({ from, to }) => names.has(from) && names.has(to));
  const has = new Set(edges.map(({ from, to }) => `${from} ${to}`));
  // What the jobs were when it ran, where they follow others by now.
  for (const run of items) {
    for (const id of run.joined ?? [run.cause]) {
      const from = byId.get(id);
      const key = from && `${jobOf(from)} ${jobOf(run)}`;
      if (!key || has.has(key)) continue;
      has.add(key);
      edges.push({ from: jobOf(from), to: jobOf(run), kind: "after", on: "ended" });
    }
  }
  const jobs = new Map(graph?.jobs.map((job) => [job.name, job]));
  return { jobs: [...names].map((name) => jobs.get(name) ?? { name }), edges };
}

/** Returns the graph of a workflow with the newest run of each job. */
export function workflowGraph(view, items, own) {
  const now = Date.now();
  const graph = graphOfRuns(graphAround(view, items), items);
  const runs = new Map(items.map((run) => [jobOf(run), { id: run.id, state: run.state, took: tookOf(run, now) }]));
  return jobGraph(graph, own && jobOf(own), runs);
}

/** Returns the runs of a workflow as bars on one axis of time, what waited apart from what ran. */
export function workflowBars(items) {
  const now = Date.now();
  const common = commonOf(items.map(jobOf));
  const going = items.some(({ state }) => !ENDED.has(state));
  return timeline(
    items.map((run) => barsOf(run, common, now)),
    { axis: "clock", now: going ? now : null },
  );
}

function barsOf(run, common, now) {
  const { id, state, node } = run;
  const [made, began] = [moment(run.created_at), moment(run.started_at)];
  const to = moment(run.ended_at) ?? now;
  const name = jobOf(run).slice(common.length);
  const words = stateWords(state);
  const waited = duration((began ?? to) - made);
  const phases = [{ kind: "queued", from: made, to: began ?? to, text: `waited ${waited}` }];
  if (began !== null) {
    const outcome = ENDED.has(state) ? state.toLowerCase() : "running";
    phases.push({ kind: "attempt", from: began, to, outcome, text: `${words}, ${duration(to - began)}` });
  }
  return {
    key: id,
    href: `/ui/runs/${encodeURIComponent(id)}`,
    label: h("span", { class: "gantt-label", title: name }, h("span", { "aria-hidden": "true" }, MARKS[state]), ` ${name}`),
    aside: began === null ? words : duration(to - began),
    text: `${name}: waited ${waited}${began === null ? "" : `, ran ${duration(to - began)} on ${executorOf(run)}`}, ${words}`,
    node,
    from: made,
    to,
    phases: state === "SKIPPED" ? [] : phases.filter((phase) => phase.to > phase.from),
  };
}

/** Returns the columns of a table of the runs of a workflow. */
export function workflowColumns(own, common = "") {
  return [
    {
      title: "Job",
      cell: (row) =>
        row.id === own
          ? h("strong", null, jobOf(row).slice(common.length))
          : h("a", { href: `/ui/runs/${encodeURIComponent(row.id)}` }, jobOf(row).slice(common.length)),
    },
    { title: "State", cell: (row) => stateBadge(row.state) },
    { title: "Started", cell: (row) => timeOf(row.started_at) },
    {
      title: "Waited",
      number: true,
      cell: (row) => duration((moment(row.started_at) ?? moment(row.ended_at) ?? Date.now()) - moment(row.created_at)),
    },
    { title: "Took", number: true, cell: (row) => duration(tookOf(row)) },
    { title: "Node", cell: executorOf },
  ];
}
