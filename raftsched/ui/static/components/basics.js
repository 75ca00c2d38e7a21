/** Small pieces that every page uses: functions that return descriptions. */

import { View, define } from "../core/element.js";
import { absolute, ago, moment, stateWords, viewerZone } from "../core/format.js";
import { h } from "../core/vdom.js";

// Each state has a mark of its own: colour alone says nothing to some.
export const MARKS = {
  SUCCEEDED: "✓",
  FAILED: "✕",
  TIMED_OUT: "◔",
  KILLED: "■",
  SKIPPED: "↷",
  RUNNING: "▶",
  LAUNCHED: "▷",
  WAITING: "…",
  RETRYING: "↻",
  NEW: "✦",
  SCHEDULED: "◷",
  SUSPENDED: "‖",
  EXPIRED: "∎",
  DONE: "✓",
  CANCELLED: "■",
  LOST: "?",
  SNOOZED: "↻",
};

/** Returns the state of a job, a run or an operation as a badge. */
export function stateBadge(state) {
  if (!state) return "";
  return h(
    "span",
    { class: `badge state-${state.toLowerCase()}` },
    h("span", { "aria-hidden": "true" }, MARKS[state] ?? "•"),
    ` ${stateWords(state)}`,
  );
}

class Time extends View {
  static shown = new Set();

  connected() {
    Time.shown.add(this);
  }

  disconnected() {
    Time.shown.delete(this);
  }

  render() {
    const { at, zone } = this;
    const full = absolute(at, zone, { millis: true });
    const title = `${full} ${zone ?? viewerZone()} · ${new Date(at).toISOString()}`;
    return h(
      "time",
      { datetime: new Date(at).toISOString(), title },
      this.relative === false ? absolute(at, zone) : ago(at),
    );
  }
}
define("rs-time", Time);
setInterval(() => {
  if (!document.hidden) for (const one of Time.shown) one.update();
}, 1000);

/** Returns a time that keeps itself relative to now, with the full time in its title. `iso`: text of the API, or ms. */
export function timeOf(iso, { relative = true, zone } = {}) {
  const at = typeof iso === "number" ? iso : moment(iso);
  if (at === null) return h("span", { class: "muted" }, "–");
  return h("rs-time", { ".at": at, ".relative": relative, ".zone": zone, ref: (el) => el.update(), key: undefined });
}

/** Returns a button that copies a text. */
export function copyButton(text, label = "Copy") {
  return h(
    "button",
    {
      type: "button",
      class: "quiet small copy",
      title: label,
      "aria-label": label,
      onclick: async (event) => {
        const button = event.currentTarget;
        const done = await copy(typeof text === "function" ? text() : text);
        button.classList.toggle("done", done);
        announce(done ? "Copied" : "This browser did not let the page copy");
        setTimeout(() => button.classList.remove("done"), 1500);
      },
    },
    h(
      "svg",
      { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
      h("path", { d: "M5.5 5.5h8v9h-8zM3 11V2h7.5", fill: "none", stroke: "currentColor", "stroke-width": 1.5 }),
    ),
  );
}

/** Copies a text, and returns whether that was possible: outside of https and loopback there is no clipboard. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Says something to screen readers. */
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

/** Returns what is shown where there is nothing yet: what it means, and what to do next. */
export function empty(title, advice, action) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    advice ? h("p", null, advice) : null,
    action,
  );
}

/** Returns an error in the API's own words. */
export function problem(error) {
  if (!error) return null;
  const errors = error.errors ?? [];
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", null, error.title ?? "Error"),
    " ",
    error.detail || error.message,
    errors.length
      ? h(
          "ul",
          null,
          errors.map((one) => h("li", null, h("code", null, one.pointer ?? one.parameter ?? ""), " ", one.detail)),
        )
      : null,
  );
}

/** Returns what is shown until something is read. */
export function loading(words = "Loading …") {
  return h("p", { class: "loading", role: "status" }, words);
}

/** Returns a titled part of a page. */
export function card(title, body, { actions, id, level = 2 } = {}) {
  return h(
    "section",
    { class: "card", "aria-labelledby": id ?? null },
    h(
      "header",
      { class: "card-head" },
      h(`h${level}`, { id: id ?? null }, title),
      actions ? h("div", { class: "actions" }, actions) : null,
    ),
    body,
  );
}

const TABLES = new ResizeObserver((entries) => {
  // A table that was taken out of its place meanwhile has none; nobody sees what it is given.
  for (const place of new Set(entries.map(({ target }) => target.closest(".table-wrap") ?? target))) {
    place.removeAttribute("data-stacked");
    place.toggleAttribute("data-stacked", place.scrollWidth > place.clientWidth);
  }
});

/** Lets a table in its place be cards, one for each row, while it is wider than that. */
export function fit(place) {
  TABLES.observe(place);
  TABLES.observe(place.firstElementChild);
}

/**
 * Returns a table, whose rows become cards where it has not the room.
 *
 * @param {Array<{title: any, label?: string, cell: (row) => any, number?: boolean, class?: string}>} columns
 * @param {any[]} rows
 * @param {(row) => string} options.key
 */
export function table(columns, rows, { key, caption, rowProps } = {}) {
  const kind = (column) => [column.number && "number", column.class];
  const label = ({ label, title }) => label ?? (typeof title === "string" ? title : "");
  return h(
    "div",
    { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption ?? "Table", ref: fit },
    h(
      "table",
      { role: "table" },
      caption ? h("caption", { class: "sr" }, caption) : null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((column) => h("th", { scope: "col", class: kind(column) }, column.title)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row, at) =>
          h(
            "tr",
            { role: "row", key: key ? key(row) : at, ...rowProps?.(row) },
            columns.map((column) =>
              h("td", { role: "cell", class: kind(column), "data-label": label(column) }, column.cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Returns names and values, one under the other: [["Owner", "ana"], ...]; those without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
  );
}

/** Returns the heading of a page, with its actions. */
export function heading(title, { actions, above, below } = {}) {
  return h(
    "div",
    { class: "page-head" },
    h("div", null, above ? h("p", { class: "above" }, above) : null, h("h1", null, title), below),
    actions ? h("div", { class: "actions" }, actions) : null,
  );
}

/** Returns "as of" a reading that is not known to be the newest, else nothing. */
export function asOf(resource) {
  const { data, error, stale, at } = resource;
  if (data === undefined || (!error && !stale)) return null;
  return h(
    "p",
    { class: "as-of", role: "status" },
    "As of ",
    timeOf(at),
    stale ? "." : ": it could not be read since.",
  );
}

/** Returns what a resource shows: its problem, that it is being read, or what `show` makes of its data. */
export function shown(resource, show) {
  if (resource.data === undefined) return resource.error ? problem(resource.error) : loading();
  return [asOf(resource), show(resource.data)];
}
