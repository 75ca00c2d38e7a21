/** Who led, over time: a row for each node, a bar for each leadership. */

import { anchor, momentScale, tickText } from "./scale.js";
import { absolute, duration } from "../core/format.js";
import { h } from "../core/vdom.js";

const TERMS_ROW = 22;

/** Returns leaderships with their ends, oldest first; each lasted until the next one at the latest, the last until `end`. */
export function spans(terms, end) {
  const ordered = [...terms].sort((a, b) => a.term - b.term);
  return ordered.map((one, at) => {
    const from = Date.parse(one.at);
    return { ...one, from, to: Math.max(from, at + 1 < ordered.length ? Date.parse(ordered[at + 1].at) : end) };
  });
}

/**
 * Returns the leaderships of a time.
 *
 * @param {object[]} terms as the API has them
 * @param {number} options.from what ended before this is left out; ms since the epoch
 * @param {number|null} options.ended when the last one ended; null: it goes on
 */
export function termsChart(terms, { from, now, ended }) {
  const all = spans(terms, ended ?? now).filter((span) => span.to >= from);
  const nodes = [...new Set(all.map((span) => span.leader))].sort();
  const begin = Math.max(from, all[0].from);
  const along = momentScale(begin, now, 5);
  const x = (at) => 100 * Math.max(0, along.at(at));
  const text = all.map(
    (span) => `${span.leader} term ${span.term} from ${absolute(span.from)} for ${duration(span.to - span.from)}`,
  );
  return h(
    "figure",
    { class: "terms" },
    h(
      "div",
      { class: "terms-nodes", "aria-hidden": "true" },
      nodes.map((node) => h("span", { key: node }, node)),
    ),
    h(
      "svg",
      {
        width: "100%",
        height: nodes.length * TERMS_ROW + 20,
        role: "img",
        "aria-label": `Leaderships: ${text.join("; ")}`,
      },
      nodes.map((_, row) =>
        h("line", {
          class: "grid-line",
          x1: 0,
          x2: "100%",
          y1: row * TERMS_ROW + TERMS_ROW / 2,
          y2: row * TERMS_ROW + TERMS_ROW / 2,
        }),
      ),
      all.map((span) =>
        h(
          "rect",
          {
            key: span.term,
            class: ["term", ended === null && span === all.at(-1) && "now"],
            x: `${x(span.from).toFixed(2)}%`,
            y: nodes.indexOf(span.leader) * TERMS_ROW + 4,
            width: `${Math.max(0.3, x(span.to) - x(span.from)).toFixed(2)}%`,
            height: TERMS_ROW - 8,
            rx: 3,
          },
          h(
            "title",
            null,
            `${span.leader} led in term ${span.term} for ${duration(span.to - span.from)}, from ${absolute(span.from)}`,
          ),
        ),
      ),
      along.ticks.map((tick) =>
        h(
          "text",
          {
            class: "axis",
            x: `${x(tick).toFixed(2)}%`,
            y: nodes.length * TERMS_ROW + 14,
            "text-anchor": anchor(along.at(tick)),
          },
          tickText(tick, along.step),
        ),
      ),
    ),
  );
}
