/** Points over time: each is a link, with a shape and a colour of its outcome. */

import { moveFocus } from "./points.js";
import { anchor, lengthScale, lengthText, momentScale, percentile, tickText } from "./scale.js";
import { duration, plural, stateWords } from "../core/format.js";
import { h } from "../core/vdom.js";

const HEIGHT = 170;
const SPAN_MS = 60_000; // of the axis at least
const TOP = 14;
const BOTTOM = HEIGHT - 20;
const SHAPES = {
  SUCCEEDED: "M0-3.5A3.5 3.5 0 1 1-.01-3.5Z",
  FAILED: "M-4-2.2-2.2-4 0-1.8 2.2-4 4-2.2 1.8 0 4 2.2 2.2 4 0 1.8-2.2 4-4 2.2-1.8 0Z",
  TIMED_OUT: "M0-4.5 4.5 4H-4.5Z",
  KILLED: "M-3.5-3.5H3.5V3.5H-3.5Z",
  OTHER: "M0-4.5 4.5 0 0 4.5-4.5 0Z",
};

/** Returns the shape of an outcome, as a small picture. */
export function mark(state, props = {}) {
  const known = SHAPES[state] ? state : "OTHER";
  return h("path", { class: `fill-${known.toLowerCase()}`, d: SHAPES[known], ...props });
}

/**
 * Returns lengths of time as points: up is longer, right is newer.
 *
 * @param {Array<{key, at, value, state, href, text}>} points oldest first; `at` and `value` in ms
 * @param {string} options.label what the values are, for those who do not see it
 */
export function scatter(points, { label }) {
  const values = points.map((point) => point.value);
  const up = lengthScale(values, 4);
  const along = momentScale(points[0].at, Math.max(points.at(-1).at, points[0].at + SPAN_MS), 3);
  const y = (value) => BOTTOM - up.at(value) * (BOTTOM - TOP);
  const x = (at) => `${(8 + 91 * along.at(at)).toFixed(2)}%`;
  const lines = [
    ["median", percentile(values, 0.5)],
    ["p99", percentile(values, 0.99)],
  ];
  return h(
    "figure",
    { class: "chart" },
    h(
      "svg",
      {
        class: "scatter",
        width: "100%",
        height: HEIGHT,
        role: "group",
        "aria-label": `${label}: ${plural(points.length, "run")}`,
        onkeydown: moveFocus,
      },
      h(
        "g",
        { "aria-hidden": "true" },
        up.ticks.map((tick) => h("line", { class: "grid-line", x1: 0, x2: "100%", y1: y(tick), y2: y(tick) })),
        lines.map(([, value]) => h("line", { class: "level", x1: 0, x2: "100%", y1: y(value), y2: y(value) })),
      ),
      h(
        "g",
        { "aria-hidden": "true" },
        up.ticks.map((tick) => h("text", { class: "axis", x: 0, y: y(tick) - 3 }, lengthText(tick))),
        along.ticks.map((tick) =>
          h(
            "text",
            { class: "axis", x: x(tick), y: HEIGHT - 5, "text-anchor": anchor(along.at(tick)) },
            tickText(tick, along.step),
          ),
        ),
      ),
      h(
        "g",
        null,
        points.map((point, index) =>
          h(
            "a",
            {
              key: point.key,
              href: point.href,
              class: "point",
              "aria-label": point.text,
              tabindex: index === points.length - 1 ? 0 : -1,
            },
            h("title", null, point.text),
            h(
              "svg",
              { x: x(point.at), y: y(point.value), overflow: "visible", width: 1, height: 1 },
              mark(point.state),
            ),
          ),
        ),
      ),
    ),
    h(
      "figcaption",
      { class: "legend" },
      lines.map(([name, value]) => h("span", { key: name }, `${name} ${duration(value)}`)),
      up.log ? h("span", { key: "log" }, "logarithmic scale") : null,
    ),
  );
}

/** Returns what the shapes mean, with how many points have each. */
export function shapeLegend(points) {
  const counts = new Map();
  for (const { state } of points) counts.set(state, (counts.get(state) ?? 0) + 1);
  return h(
    "p",
    { class: "legend" },
    [...counts].map(([state, count]) =>
      h(
        "span",
        { key: state },
        h("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, mark(state)),
        ` ${stateWords(state)} ${count}`,
      ),
    ),
  );
}
