/** Which jobs follow which: boxes in layers, each behind all that it waits for, and lines between them. */

import { MARKS } from "../components/basics.js";
import { View, define } from "../core/element.js";
import { duration, stateWords } from "../core/format.js";
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
 * from top to bottom. `{width, height, high, down, at: Map(name -> {x, y, wide})}`, in px.
 */
export function layout(graph, room, high) {
  const layers = [];
  for (const [name, { column }] of places(graph)) (layers[column] ??= []).push(name);
  const [near, far] = LAYERS_APART;
  const [least, most] = BOX_WIDE;
  const down = layers.length * (least + near) - near > room;
  const fit = (count, apart) => Math.floor(Math.max(least, Math.min(most, (room - (count - 1) * apart) / count)));
  const across = Math.max(near, Math.min(far, (room - layers.length * least) / Math.max(1, layers.length - 1)));
  const side = Math.max(1, Math.floor((room + GRAPH_GAP) / (least + GRAPH_GAP))); // boxes of a line, from top to bottom
  const at = new Map();
  let y = 0;
  layers.forEach((layer, column) => {
    const wide = down ? fit(Math.min(layer.length, side), GRAPH_GAP) : fit(layers.length, across);
    layer.forEach((name, row) => {
      if (!down) return void at.set(name, { x: column * (wide + across), y: row * (high + GRAPH_GAP), wide });
      const line = Math.floor(row / side);
      const beside = Math.min(side, layer.length - line * side);
      const left = (room - beside * (wide + GRAPH_GAP) + GRAPH_GAP) / 2;
      at.set(name, { x: left + (row % side) * (wide + GRAPH_GAP), y: y + line * (high + GRAPH_GAP), wide });
    });
    if (down) y += Math.ceil(layer.length / side) * (high + GRAPH_GAP) + near - GRAPH_GAP;
  });
  const boxes = [...at.values()];
  const height = Math.max(0, ...boxes.map((box) => box.y)) + high;
  return { width: Math.max(0, ...boxes.map((box) => box.x + box.wide)), height, high, down, at };
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

  #box({ name, id, state, when }, { at, high }, common) {
    const { own, runs } = this.#shown;
    const { x, y, wide } = at.get(name);
    const run = runs?.get(name);
    const letters = Math.floor((wide - 10) / LETTER);
    const short = name.slice(common.length);
    const says = run ? stateText(run) : runs ? "not started" : "";
    const full = `${name}: ${says || when || "it does not exist"}`;
    const text = (words, down, kind) =>
      h("text", { x: x + wide / 2, y: y + down, class: kind, "text-anchor": "middle" }, words);
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
        width: wide,
        height: high,
        rx: 5,
      }),
      text(short.length > letters ? `${short.slice(0, letters - 1)}…` : short, runs ? 18 : 19, "graph-name"),
      runs ? text(run ? stateOf(run, letters) : says, 35, "graph-state") : null,
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

/** Returns the state of a run with its mark, and with its length where there is room. */
function stateOf(run, letters) {
  const words = `${MARKS[run.state]} ${stateText(run)}`;
  return words.length > letters + 2 ? `${MARKS[run.state]} ${stateText({ ...run, took: null })}` : words;
}

function stateText({ state, took }) {
  return stateWords(state) + (took === null ? "" : ` ${duration(took)}`);
}

function line({ from, to, kind, mode, on }, { at, high, down }) {
  const [a, b] = [at.get(from), at.get(to)];
  if (!a || !b) return null;
  const [x1, y1] = down ? [a.x + a.wide / 2, a.y + high] : [a.x + a.wide, a.y + high / 2];
  const [x2, y2] = down ? [b.x + b.wide / 2, b.y] : [b.x, b.y + high / 2];
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
