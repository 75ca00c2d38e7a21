/** A heat strip: rows of counts over time, the darker the more. Each count is a link; arrows go from one to the next. */

import { momentScale, tickText } from "./scale.js";
import { levelOf } from "./heat-data.js";
import { number } from "../core/format.js";
import { h } from "../core/vdom.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * Returns the strip.
 *
 * @param {number} options.from ms since the epoch, of the first step
 * @param {number} options.step ms
 * @param {Array<{name, label, values: number[], total}>} options.rows `name` is that of a class, too
 * @param {number} options.ticks how many times are written below, at most
 * @param {(name: string, at: number) => string} options.hrefOf
 * @param {(name: string, at: number) => string} options.textOf
 * @param {(text: string|null) => void} options.onMeant called with the words of the count that is pointed at
 */
export function heatStrip({ from, step, rows, ticks, hrefOf, textOf, onMeant, label }) {
  const steps = rows[0].values.length;
  const along = momentScale(from, from + steps * step, ticks);
  const meant = (event) => onMeant(event.target.closest("a")?.getAttribute("aria-label") ?? null);
  let first = true; // the strip is one stop of the Tab key
  return h(
    "div",
    {
      class: "heat",
      role: "group",
      "aria-label": label,
      onkeydown: moveInHeat,
      onmouseover: meant,
      onfocusin: meant,
      onmouseleave: () => onMeant(null),
    },
    rows.map(({ name, label: title, values, total }) => {
      const most = Math.max(1, ...values);
      return [
        h(
          "div",
          { class: "heat-label", key: `${name}-label` },
          h("span", null, title),
          h("strong", { class: "number" }, number(total)),
        ),
        h(
          "svg",
          {
            class: "heat-row",
            key: name,
            viewBox: `0 0 ${steps} 1`,
            preserveAspectRatio: "none",
            role: "group",
            "aria-label": `${title}: ${number(total)}`,
          },
          h("rect", { class: "heat-none", width: steps, height: 1 }),
          values.map((value, at) => {
            if (!value) return null;
            const tab = first;
            first = false;
            return h(
              "a",
              { href: hrefOf(name, at), "aria-label": textOf(name, at), "data-at": at, tabindex: tab ? "0" : "-1" },
              h("rect", { class: `heat-${name} level-${levelOf(value, most)}`, x: at, width: 0.9, height: 1 }),
            );
          }),
        ),
      ];
    }),
    h(
      "div",
      { class: "heat-axis", "aria-hidden": "true", key: "axis" },
      along.ticks.map((tick) =>
        h("span", { style: { left: `${(100 * along.at(tick)).toFixed(2)}%` } }, tickText(tick, along.step)),
      ),
    ),
  );
}

/** Moves the focus between counts: left and right within a row, up and down to the nearest of another. */
function moveInHeat(event) {
  const move = MOVES[event.key];
  const link = document.activeElement?.closest(".heat-row a");
  if (!move || !link) return;
  event.preventDefault();
  const next = move[0] ? nearest(event.currentTarget, link, move[0]) : beside(link, move[1]);
  if (!next) return;
  for (const one of event.currentTarget.querySelectorAll('a[tabindex="0"]')) one.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

function beside(link, by) {
  const links = [...link.parentNode.querySelectorAll("a")];
  return links[links.indexOf(link) + by];
}

function nearest(strip, link, by) {
  const rows = [...strip.querySelectorAll(".heat-row")];
  const at = Number(link.getAttribute("data-at"));
  for (let row = rows.indexOf(link.parentNode) + by; rows[row]; row += by) {
    const away = (one) => Math.abs(Number(one.getAttribute("data-at")) - at);
    const links = [...rows[row].querySelectorAll("a")].sort((a, b) => away(a) - away(b));
    if (links.length) return links[0];
  }
  return null;
}
