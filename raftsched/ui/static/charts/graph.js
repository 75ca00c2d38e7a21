/** Which jobs follow which: boxes in columns, each behind all that it waits for, and lines between them. */

import { h } from "../core/vdom.js";

const BOX = { width: 176, height: 30, across: 60, down: 14 };
const LETTERS = 24; // of a name in a box

/**
 * Returns where each job stands: its column is behind those of all that it waits for, in a circle behind those that
 * come before it.
 *
 * @param {{jobs: Array<{name: string}>, edges: Array<{from: string, to: string}>}} graph as the API has it
 */
export function places({ jobs, edges }) {
  const before = new Map(jobs.map(({ name }) => [name, []]));
  for (const { from, to } of edges) before.get(to)?.push(from);
  const column = new Map();
  const open = new Set();
  const find = (name) => {
    if (column.has(name)) return column.get(name);
    if (open.has(name)) return -1;
    open.add(name);
    const at = Math.max(-1, ...before.get(name).map((one) => (before.has(one) ? find(one) : -1))) + 1;
    open.delete(name);
    column.set(name, at);
    return at;
  };
  const used = [];
  return new Map(
    jobs.map(({ name }) => {
      const at = find(name);
      used[at] = (used[at] ?? -1) + 1;
      return [name, { column: at, row: used[at] }];
    }),
  );
}

/** Returns the drawing. `own`: the job that the page is about. */
export function jobGraph(graph, own) {
  const at = places(graph);
  const x = ({ column }) => column * (BOX.width + BOX.across);
  const y = ({ row }) => row * (BOX.height + BOX.down);
  const columns = Math.max(0, ...[...at.values()].map((place) => place.column)) + 1;
  const rows = Math.max(0, ...[...at.values()].map((place) => place.row)) + 1;
  const width = columns * (BOX.width + BOX.across) - BOX.across + 2;
  const height = rows * (BOX.height + BOX.down) - BOX.down + 2;
  return h(
    "div",
    { class: "job-graph", tabindex: "0", role: "group", "aria-label": "Graph of jobs" },
    h(
      "svg",
      { width, height, viewBox: `-1 -1 ${width} ${height}`, role: "group", "aria-label": inWords(graph) },
      graph.edges.map((edge) => line(edge, at, x, y)),
      graph.jobs.map((job) => box(job, at.get(job.name), own, x, y)),
    ),
  );
}

function line({ from, to, kind, mode, on }, at, x, y) {
  const [a, b] = [at.get(from), at.get(to)];
  if (!a || !b) return null;
  const [x1, y1] = [x(a) + BOX.width, y(a) + BOX.height / 2];
  const [x2, y2] = [x(b), y(b) + BOX.height / 2];
  const bend = BOX.across / 2;
  const words = kind === "condition" ? "waits for a success of" : `follows, once it has ${on},`;
  return h(
    "path",
    {
      key: `${from} ${to} ${kind}`,
      class: ["graph-line", (kind === "condition" || mode === "any") && "is-dashed", on === "failed" && "is-bad"],
      d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
    },
    h("title", null, `${to} ${words} ${from}`),
  );
}

function box({ name, id, state, when }, place, own, x, y) {
  const text = name.length > LETTERS ? `…${name.slice(1 - LETTERS)}` : name;
  const drawn = [
    h("title", null, when ? `${name}: ${when}` : `${name} does not exist`),
    h("rect", {
      class: ["graph-box", name === own && "is-own", state !== "SCHEDULED" && "is-off"],
      x: x(place),
      y: y(place),
      width: BOX.width,
      height: BOX.height,
      rx: 5,
    }),
    h(
      "text",
      { x: x(place) + BOX.width / 2, y: y(place) + BOX.height / 2 + 4, class: "graph-name", "text-anchor": "middle" },
      text,
    ),
  ];
  return id
    ? h("a", { key: name, href: `/ui/jobs/${encodeURIComponent(id)}?tab=graph`, "aria-label": name }, drawn)
    : h("g", { key: name }, drawn);
}

function inWords({ edges }) {
  return `Jobs and what they wait for: ${edges.map(({ from, to }) => `${to} waits for ${from}`).join("; ")}`;
}
