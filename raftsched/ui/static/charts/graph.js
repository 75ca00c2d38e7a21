/** Which jobs follow which: boxes in layers, each behind all that it waits for, and lines between them. */

import { MARKS } from "../components/basics.js";
import { View, define } from "../core/element.js";
import { duration } from "../core/format.js";
import { h } from "../core/vdom.js";

const GRAPH_GAP = 12; // px between boxes of one layer,
const LAYERS_APART = [26, 60]; // and between layers, at least and at most
const BOX_WIDE = [98, 210];
const LETTER = 7; // px, of a name

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

/** Returns what all names have in common in front, up to a slash: "data/" of "data/a" and "data/b". */
export function commonOf(names) {
  const first = names[0] ?? "";
  const common = first.slice(0, first.indexOf("/") + 1);
  return names.every((name) => name.startsWith(common)) ? common : "";
}

/**
 * Returns the boxes of a drawing that is as wide as there is room: layers from left to right, or where these do not fit,
 * from top to bottom. `{width, height, box: {width, height}, down, at: Map(name -> {x, y})}`, in px.
 */
export function layout(graph, room, high) {
  const found = [...places(graph)];
  const layers = [];
  for (const [name, { column }] of found) (layers[column] ??= []).push(name);
  const [near, far] = LAYERS_APART;
  const [least, most] = BOX_WIDE;
  const down = layers.length * (least + near) - near > room;
  const longest = Math.max(0, ...layers.map((layer) => layer.length));
  // From top to bottom a layer may have several lines of boxes.
  const side = down ? Math.min(longest, Math.max(1, Math.floor((room + GRAPH_GAP) / (least + GRAPH_GAP)))) : layers.length;
  const across = down ? GRAPH_GAP : Math.max(near, Math.min(far, (room - side * least) / Math.max(1, side - 1)));
  const wide = Math.floor(Math.max(least, Math.min(most, (room - (side - 1) * across) / side)));
  const at = new Map();
  let y = 0;
  layers.forEach((layer, column) => {
    layer.forEach((name, row) => {
      const [x, line] = down ? [row % side, Math.floor(row / side)] : [column, row];
      at.set(name, { x: x * (wide + across), y: (down ? y : 0) + line * (high + GRAPH_GAP) });
    });
    if (down) y += Math.ceil(layer.length / side) * (high + GRAPH_GAP) + near - GRAPH_GAP;
  });
  const height = Math.max(0, ...[...at.values()].map((place) => place.y)) + high;
  return { box: { width: wide, height: high }, down, width: side * (wide + across) - across, height, at };
}

class Graph extends View {
  #shown = null;

  set shown(shown) {
    this.#shown = shown;
    this.update();
  }

  connected() {
    this.on(window, "resize", () => this.update());
  }

  render() {
    const { graph, runs } = this.#shown;
    const room = (this.clientWidth || 800) - 12;
    const drawn = layout(graph, room, runs ? 44 : 30);
    const common = commonOf(graph.jobs.map(({ name }) => name));
    const { width, height } = drawn;
    return h(
      "div",
      { class: "job-graph", tabindex: "0", role: "group", "aria-label": "Graph of jobs" },
      h(
        "svg",
        {
          width: width + 2,
          height: height + 2,
          viewBox: `-1 -1 ${width + 2} ${height + 2}`,
          role: "group",
          "aria-label": inWords(graph),
        },
        graph.edges.map((edge) => line(edge, drawn)),
        graph.jobs.map((job) => this.#box(job, drawn, common)),
      ),
    );
  }

  #box({ name, id, state, when }, { at, box }, common) {
    const { own, runs } = this.#shown;
    const { x, y } = at.get(name);
    const run = runs?.get(name);
    const letters = Math.floor((box.width - 10) / LETTER);
    const short = name.slice(common.length);
    const says = run ? stateText(run) : runs ? "not started" : "";
    const full = `${name}: ${says || when || "it does not exist"}`;
    const text = (words, down, kind) =>
      h("text", { x: x + box.width / 2, y: y + down, class: kind, "text-anchor": "middle" }, words);
    const drawn = [
      h("title", null, full),
      h("rect", {
        class: [
          "graph-box",
          name === own && (runs ? "is-here" : "is-own"),
          !runs && state !== "SCHEDULED" && "is-off",
          runs && (run ? `graph-${run.state.toLowerCase()}` : "is-off"),
        ],
        x,
        y,
        ...box,
        rx: 5,
      }),
      text(short.length > letters ? `${short.slice(0, letters - 1)}…` : short, runs ? 18 : 19, "graph-name"),
      runs ? text(run ? `${MARKS[run.state]} ${says}` : says, 35, "graph-state") : null,
    ];
    const href = run ? `/ui/runs/${encodeURIComponent(run.id)}` : id && `/ui/jobs/${encodeURIComponent(id)}?tab=graph`;
    return href ? h("a", { key: name, href, "aria-label": full }, drawn) : h("g", { key: name }, drawn);
  }
}
define("rs-graph", Graph);

/**
 * Returns the drawing of a graph.
 *
 * @param {string} own the job that the page is about
 * @param {Map<string, {id, state, took}>} [runs] of a workflow: boxes say how far each job is, and lead to its run
 */
export function jobGraph(graph, own, runs) {
  return h("rs-graph", { ".shown": { graph, own, runs } });
}

function stateText({ state, took }) {
  return state.toLowerCase().replaceAll("_", " ") + (took === null ? "" : ` ${duration(took)}`);
}

function line({ from, to, kind, mode, on }, { at, box, down }) {
  const [a, b] = [at.get(from), at.get(to)];
  if (!a || !b) return null;
  const [x1, y1] = down ? [a.x + box.width / 2, a.y + box.height] : [a.x + box.width, a.y + box.height / 2];
  const [x2, y2] = down ? [b.x + box.width / 2, b.y] : [b.x, b.y + box.height / 2];
  const bend = Math.abs(down ? y2 - y1 : x2 - x1) / 2;
  const words = kind === "condition" ? "waits for a success of" : `follows, once it has ${on},`;
  const curve = down ? `${x1} ${y1 + bend} ${x2} ${y2 - bend}` : `${x1 + bend} ${y1} ${x2 - bend} ${y2}`;
  return h(
    "path",
    {
      key: `${from} ${to} ${kind}`,
      class: ["graph-line", (kind === "condition" || mode === "any") && "is-dashed", on === "failed" && "is-bad"],
      d: `M${x1} ${y1}C${curve} ${x2} ${y2}`,
    },
    h("title", null, `${to} ${words} ${from}`),
  );
}

function inWords({ edges }) {
  return `Jobs and what they wait for: ${edges.map(({ from, to }) => `${to} waits for ${from}`).join("; ")}`;
}
