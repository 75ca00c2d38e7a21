/** Pictures of a job's runs: what they went through, how long they took, how late they began. */

import { scatter, shapeLegend } from "../../charts/scatter.js";
import { timeline } from "../../charts/timeline.js";
import { card, stateBadge } from "../../components/basics.js";
import { absolute, ago, duration, moment, stateWords } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { runLink } from "./paths.js";
import { ENDED, durationOf, phaseText, phases, skipText, startOf } from "./phases.js";

/**
 * Returns the newest runs as a timeline.
 *
 * @param {Map<string, Array|null>} waits of the explanations that were read, by run
 * @param {"since"|"clock"} axis
 */
export function rows(runs, waits, axis, choose) {
  const now = Date.now();
  const shown = runs.map((run) => {
    const parts = phases(run, now, waits.get(run.id) ?? []).map((phase) => ({ ...phase, text: phaseText(phase) }));
    const from = parts[0]?.from ?? startOf(run);
    const to = parts.at(-1)?.to ?? from;
    const said = parts.map((part) => part.text).join(", ") || skipText(run);
    return {
      key: run.id,
      href: runLink(run),
      label: [stateBadge(run.state), h("span", { class: "muted" }, absolute(moment(run.scheduled_at)).slice(5))],
      aside: parts.length ? duration(to - from) : skipText(run),
      text: `${stateWords(run.state)}, due ${ago(moment(run.scheduled_at))}: ${said}`,
      phases: parts,
      from,
      to,
    };
  });
  const choice = (name, words) =>
    h(
      "button",
      {
        type: "button",
        class: "small",
        "aria-pressed": String(axis === name),
        onclick: () => choose(name),
      },
      words,
    );
  return card(
    `The last ${runs.length === 1 ? "run" : `${runs.length} runs`}`,
    [
      timeline(shown, { axis }),
      h(
        "p",
        { class: "legend" },
        [
          ["queued", "waits for its turn"],
          ["conditions", "waits for conditions"],
          ["retry", "waits for a retry"],
        ].map(([kind, words]) =>
          h(
            "span",
            null,
            h(
              "svg",
              { width: 22, height: 8, "aria-hidden": "true" },
              h("line", { class: `wait-${kind}`, x1: 0, x2: 22, y1: 4, y2: 4 }),
            ),
            ` ${words}`,
          ),
        ),
        h(
          "span",
          null,
          h(
            "svg",
            { width: 22, height: 10, "aria-hidden": "true" },
            h("rect", { class: "attempt-succeeded", width: 22, height: 10, rx: 2 }),
          ),
          " an attempt",
        ),
      ),
    ],
    {
      id: "timeline",
      actions: h(
        "div",
        { class: "row", role: "group", "aria-label": "Axis" },
        choice("since", "Since due"),
        choice("clock", "By the clock"),
      ),
    },
  );
}

/** Returns how long runs took and how late they began, as plots. */
export function lengths(runs) {
  const points = (of) =>
    runs
      .map((run) => ({ key: run.id, at: startOf(run), value: of(run), state: run.state, run }))
      .filter((point) => point.value !== null && ENDED.has(point.state))
      .sort((a, b) => a.at - b.at);
  const plot = (title, found, none) =>
    card(
      title,
      found.length
        ? [
            scatter(
              found.map(({ run, ...point }) => ({
                ...point,
                href: runLink(run),
                text: `${absolute(point.at)}, ${stateWords(run.state)}: ${duration(point.value)}`,
              })),
              { label: title },
            ),
            shapeLegend(found),
          ]
        : h("p", { class: "muted" }, none),
    );
  return h(
    "div",
    { class: "grid" },
    plot("Duration, retries included", points(durationOf), "No run has started and ended yet."),
    plot(
      "Lateness",
      points((run) => run.late_ms),
      "No run of the schedule has started yet. Runs started by hand have no due time, so they are never late.",
    ),
  );
}
