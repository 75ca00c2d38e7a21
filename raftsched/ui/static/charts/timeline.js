/** Runs as rows: what each went through, on one axis of time. */

import { anchor, lengthScale, lengthText, momentScale, tickText } from "./scale.js";
import { h } from "../core/vdom.js";

const ROW = 22; // px
const LEAST = 0.4; // % of the width: what is shorter is shown as long

/**
 * Returns the rows.
 *
 * @param {Array<{key, href, label, aside, text, from, to, phases: {kind, from, to, outcome, number, text}[]}>} rows
 *   `label` stands before the bar, `aside` behind it; `text` says all of it, for those who do not see it
 * @param {"since"|"clock"} options.axis each run from its own due time on, or all by the clock
 * @param {number|null} options.now on an axis by the clock: a line stands here, while something goes on
 */
export function timeline(rows, { axis = "since", now = null } = {}) {
  const drawn = rows.filter((row) => row.phases.length);
  const scale = axis === "clock" ? byClock(drawn, now) : sinceDue(drawn);
  return h(
    "div",
    { class: "timeline" },
    h(
      "ol",
      { class: "timeline-rows" },
      rows.map((row) =>
        h(
          "li",
          { key: row.key },
          h(
            "a",
            { href: row.href, class: "timeline-row" },
            h("span", { class: "timeline-label" }, row.label),
            barOf(row, scale),
            h("span", { class: "timeline-aside", title: row.aside }, row.aside),
          ),
        ),
      ),
    ),
    drawn.length
      ? h(
          "div",
          { class: "timeline-axis", "aria-hidden": "true" },
          h(
            "svg",
            { width: "100%", height: 18 },
            scale.ticks.map((tick) =>
              h(
                "text",
                { key: tick.at, class: "axis", x: ofWidth(tick.at), y: 13, "text-anchor": anchor(tick.at) },
                tick.text,
              ),
            ),
          ),
        )
      : null,
  );
}

function barOf(row, scale) {
  return h(
    "svg",
    { class: "timeline-bar", width: "100%", height: ROW, role: "img", "aria-label": row.text },
    scale.ticks.map((tick) =>
      h("line", { class: "grid-line", x1: ofWidth(tick.at), x2: ofWidth(tick.at), y1: 0, y2: ROW }),
    ),
    scale.now ? h("line", { class: "now-line", x1: ofWidth(scale.now), x2: ofWidth(scale.now), y1: 0, y2: ROW }) : null,
    row.phases.map((phase) =>
      h("g", null, h("title", null, phase.text), shape(phase, scale.at(row, phase.from), scale.at(row, phase.to))),
    ),
  );
}

function shape({ kind, outcome, number }, from, to) {
  const x = ofWidth(from);
  const width = `${Math.max(LEAST, 100 * (to - from)).toFixed(2)}%`;
  if (kind !== "attempt") {
    const y = ROW / 2;
    return h("line", {
      class: `wait-${kind}`,
      x1: x,
      x2: `${(100 * from + Math.max(LEAST, 100 * (to - from))).toFixed(2)}%`,
      y1: y,
      y2: y,
    });
  }
  return [
    h("rect", { class: `attempt-${outcome}`, x, width, y: 3, height: ROW - 6, rx: 2 }),
    number > 1 && to - from > 0.03 ? h("text", { class: "attempt-number", x, dx: 5, y: 15 }, number) : null,
  ];
}

function sinceDue(rows) {
  const scale = lengthScale(rows.map((row) => row.to - row.from));
  return {
    at: (row, moment) => scale.at(moment - row.from),
    ticks: scale.ticks.map((tick) => ({ at: scale.at(tick), text: tick ? `+${lengthText(tick)}` : "due" })),
  };
}

function byClock(rows, now) {
  const from = Math.min(...rows.map((row) => row.from));
  const last = Math.max(now ?? 0, ...rows.map((row) => row.to));
  const scale = momentScale(from, now ? last + (last - from) / 40 : last, 4);
  return {
    now: now && scale.at(now),
    at: (row, moment) => scale.at(moment),
    ticks: scale.ticks.map((tick) => ({ at: scale.at(tick), text: tickText(tick, scale.step) })),
  };
}

function ofWidth(part) {
  return `${(100 * part).toFixed(2)}%`;
}
