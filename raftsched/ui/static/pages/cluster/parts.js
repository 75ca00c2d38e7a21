/** Pieces about the cluster that more than one page shows. */

import { bytes, duration, number, percent, plural } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { troubles } from "./trouble.js";

/** Returns what is wrong, in words; nothing when all is well. */
export function warnings(cluster) {
  const found = troubles(cluster);
  if (!found.length) return null;
  return h(
    "ul",
    { class: "troubles", "aria-label": "Trouble" },
    found.map(({ bad, text }) =>
      h(
        "li",
        { key: text, class: bad ? "problem" : "warning" },
        h("span", { "aria-hidden": "true" }, bad ? "✕ " : "! "),
        text,
      ),
    ),
  );
}

function roleBadge(node) {
  const role = !node.alive ? "down" : !node.voter ? "catching up" : node.role;
  const kind = { leader: "state-running", down: "state-failed", "catching up": "state-waiting" }[role];
  const mark = { leader: "★", follower: "○", candidate: "◌", down: "✕", "catching up": "↑" }[role];
  return h("span", { class: ["badge", kind] }, h("span", { "aria-hidden": "true" }, `${mark} `), role);
}

/** Returns how much of something is taken, as a bar with its words beside it. `warn`: the part from which it is much. */
function meter(part, words, { warn = 1 } = {}) {
  const width = Math.min(1, Math.max(0, part || 0));
  return h(
    "span",
    { class: ["meter", width >= warn && "much"] },
    h("span", { class: "meter-bar", "aria-hidden": "true" }, h("span", { style: { width: percentOf(width) } })),
    h("span", null, words),
  );
}

/** Returns the runs of a node, of its slots. */
export function slots(node) {
  return meter(node.running / node.slots, `${number(node.running)} of ${number(node.slots)}`);
}

/** Returns how full the disk of a node is. */
export function disk(node) {
  if (!node.disk) return h("span", { class: "muted" }, "–");
  const used = 1 - node.disk.free / node.disk.total;
  return h("span", { title: diskText(node.disk) }, meter(used, `${bytes(node.disk.free)} free`, { warn: 0.9 }));
}

/** Returns what is on a disk, in words. */
function diskText({ free, total, store, output }) {
  return `${bytes(free)} of ${bytes(total)} free (${percent(free / total)}); the store takes ${bytes(store)}, output ${bytes(output)}`;
}

/** Returns how far a clock is off the leader's. */
export function clock(node) {
  const ms = node.clock_offset_ms;
  return ms === null ? "–" : ms === 0 ? "0 ms" : `${ms > 0 ? "+" : "−"}${duration(Math.abs(ms))}`;
}

/** Returns how a node is, as names and values. */
function factsOf(node) {
  return [
    ["Lag", node.lag === null ? "–" : plural(node.lag, "entry", "entries")],
    ["Clock", clock(node)],
    ["Slots", slots(node)],
    ["Disk", disk(node)],
  ];
}

/** Returns a node with facts about it. */
export function nodeCard(node) {
  return h(
    "li",
    { key: node.id, class: ["node", !node.alive && "node-down"] },
    h("p", { class: "node-head" }, h("strong", null, node.id), badges(node)),
    h(
      "dl",
      { class: "node-facts" },
      factsOf(node).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
    ),
  );
}

/** Returns the role of a node, and whether it is drained. */
export function badges(node) {
  return [roleBadge(node), node.drained ? [" ", h("span", { class: "badge state-suspended" }, "‖ drained")] : null];
}

function percentOf(part) {
  return `${(100 * part).toFixed(1)}%`;
}
