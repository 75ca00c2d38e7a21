/** The days of a calendar, and the page of a year: which days are excluded by what, and what a click changes. */

import { h } from "../core/vdom.js";
import { DAY_MS } from "../core/format.js";

const MONTHS = "January February March April May June July August September October November December".split(" ");
export const DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(" ");
export const WORDS = {
  date: "excluded once",
  range: "in a range",
  yearly: "excluded every year",
  weekday: "excluded every week",
};
const WALK_MAX = 60; // steps over days without runs
const DAY_STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };

export const WEEKDAYS = DAYS.map((day) => day.slice(0, 3).toLowerCase());
export const LISTS = ["dates", "ranges", "yearly", "weekdays"];

/** Returns a day moved by a number of days: ("2026-12-31", 1) is "2027-01-01". */
export function moved(day, by) {
  return new Date(Date.parse(day) + by * DAY_MS).toISOString().slice(0, 10);
}

/** Returns the weekday of a day, 0 for Monday. */
export function weekdayOf(day) {
  return (new Date(day).getUTCDay() + 6) % 7;
}

/** Returns a function that says of each day what excludes it: "date", "range", "yearly", "weekday" or null. */
export function exclusionOf({ dates = [], ranges = [], yearly = [], weekdays = [] }) {
  const once = new Set(dates);
  const each = new Set(yearly);
  const weekly = new Set(weekdays);
  return (day) => {
    if (once.has(day)) return "date";
    if (ranges.some(({ from, to }) => from <= day && day <= to)) return "range";
    if (each.has(day.slice(5))) return "yearly";
    return weekly.has(WEEKDAYS[weekdayOf(day)]) ? "weekday" : null;
  };
}

/**
 * Returns the changed lists of a calendar after a click on a day: an excluded day is let in, another one is excluded.
 *
 * @param {string|null} kind what excludes it now, but for its weekday
 * @param {string} mode "yearly": it is excluded every year, else once
 */
export function toggled({ dates, ranges, yearly }, day, kind, mode) {
  const date = day.slice(5);
  if (kind === "date") return { dates: dates.filter((one) => one !== day) };
  if (kind === "yearly") return { yearly: yearly.filter((one) => one !== date) };
  if (kind === "range") return without(dates, ranges, day);
  return mode === "yearly" ? { yearly: [...yearly, date].sort() } : { dates: [...dates, day].sort() };
}

/** Returns the changed lists with all days between two, both included, excluded. */
export function withRange({ dates, ranges }, one, other) {
  const [from, to] = [one, other].sort();
  if (from === to) return { dates: [...new Set([...dates, from])].sort() };
  return { ranges: [...ranges, { from, to }].sort((a, b) => (a.from + a.to < b.from + b.to ? -1 : 1)) };
}

/** Takes a day out of all ranges: of one there may be two left, or single days. */
function without(dates, ranges, day) {
  const parts = ranges.flatMap((range) =>
    range.from <= day && day <= range.to
      ? [
          { from: range.from, to: moved(day, -1) },
          { from: moved(day, 1), to: range.to },
        ]
      : [range],
  );
  const single = parts.filter(
    ({ from, to }) => from === to && !ranges.some((one) => one.from === from && one.to === to),
  );
  return {
    dates: [...new Set([...dates, ...single.map(({ from }) => from)])].sort(),
    ranges: parts.filter((part) => part.from <= part.to && !single.includes(part)),
  };
}

/** Returns the months of a year as weeks of days, null before its first and after its last: [[["2027-01-01", ...]]]. */
export function monthsOf(year) {
  return Array.from({ length: 12 }, (_, month) => {
    const first = `${year}-${String(month + 1).padStart(2, "0")}-01`;
    const count = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    const days = [...Array(weekdayOf(first)).fill(null), ...Array.from({ length: count }, (_, at) => moved(first, at))];
    return Array.from({ length: Math.ceil(days.length / 7) }, (_, week) => [...days.slice(7 * week, 7 * week + 7)]);
  });
}

/** Returns a day in words: "Friday, 26 March 2027". */
export function dayText(day) {
  return `${DAYS[weekdayOf(day)]}, ${Number(day.slice(8))} ${MONTHS[Number(day.slice(5, 7)) - 1]} ${day.slice(0, 4)}`;
}

/**
 * Returns a year.
 *
 * @param {(day: string) => string|null} options.kindOf what excludes a day
 * @param {(day: string) => boolean} options.isChanged whether that is not saved yet
 * @param {string} options.today
 * @param {string} options.focused the day that the keyboard comes to
 * @param {(day: string) => void} [options.onPick] without it nothing can be changed
 */
export function yearPage(year, { kindOf, isChanged, today, focused, onPick }) {
  const cell = (day, at) => {
    if (!day) return h("td", { key: `none-${at}` });
    const kind = kindOf(day);
    const says = [dayText(day), WORDS[kind], isChanged(day) && "not saved", day === today && "today"]
      .filter(Boolean)
      .join(", ");
    const props = {
      class: ["year-day", kind && `year-${kind}`, isChanged(day) && "year-changed", day === today && "year-today"],
      "data-day": day,
      title: says,
      "aria-label": says,
    };
    const number = String(Number(day.slice(8)));
    const button = {
      ...props,
      type: "button",
      "aria-pressed": String(Boolean(kind)),
      tabindex: day === focused ? "0" : "-1",
    };
    return h("td", { key: day }, onPick ? h("button", button, number) : h("span", { ...props, role: "img" }, number));
  };
  const picked = (event) => {
    const day = event.target.closest("button[data-day]")?.dataset.day;
    if (day) onPick(day);
  };
  return h(
    "div",
    { class: "year", onclick: picked, onkeydown: walk },
    monthsOf(year).map((weeks, at) => monthOf(weeks, MONTHS[at], `${year}-${at}`, cell)),
  );
}

function monthOf(weeks, title, key, cell) {
  return h(
      "table",
      { class: "year-month", key },
      h("caption", null, title),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          DAYS.map((day) => h("th", { scope: "col", abbr: day }, day.slice(0, 2))),
        ),
      ),
      h(
        "tbody",
        null,
        weeks.map((days, week) =>
          h(
            "tr",
            { key: week },
            DAYS.map((_, day) => cell(days[day] ?? null, day)),
          ),
        ),
      ),
    );
}

// What a day of outcomes looks like: its worst one has a colour and a shape.
const DAY_KINDS = { FAILED: "bad", TIMED_OUT: "bad", KILLED: "odd", SUCCEEDED: "ok", SKIPPED: "none" };

/**
 * Returns the months up to today, of a year at most, with the outcomes of their days.
 *
 * @param {string} options.first the day from which on they are known
 * @param {(day) => string|null} options.worst the worst state of a day
 * @param {(day) => string} options.says its runs in words
 * @param {(day) => string} options.link the address of its runs
 */
export function outcomeYear(today, { first, worst, says, link }) {
  const [year, month] = today.split("-").map(Number);
  const months = Array.from({ length: 12 }, (_, at) => [year - (month + at < 12 ? 1 : 0), (month + at) % 12]).filter(
    ([of, at]) => `${of}-${String(at + 1).padStart(2, "0")}` >= first.slice(0, 7),
  );
  let last = null; // the last day with runs is where Tab comes to
  for (let day = today; day >= first && !last; day = moved(day, -1)) if (worst(day)) last = day;
  const cell = (day, at) => {
    if (!day) return h("td", { key: `none-${at}` });
    const state = worst(day);
    const props = {
      class: ["year-day", state && `day-${DAY_KINDS[state] ?? "open"}`, day === today && "year-today", (day < first || day > today) && "day-off"],
      "data-day": day,
    };
    const number = String(Number(day.slice(8)));
    if (!state) return h("td", { key: day }, h("span", props, number));
    const words = `${dayText(day)}: ${says(day)}`;
    const tabindex = day === last ? "0" : "-1";
    return h("td", { key: day }, h("a", { ...props, href: link(day), title: words, "aria-label": words, tabindex }, number));
  };
  return h(
    "div",
    { class: "year", onkeydown: walk },
    months.map(([of, at]) => monthOf(monthsOf(of)[at], `${MONTHS[at]} ${of}`, `${of}-${at}`, cell)),
  );
}

/** Moves the focus by the arrow keys: only one day is reached by Tab. */
function walk(event) {
  const day = event.target.dataset.day;
  const by = DAY_STEPS[event.key];
  if (!day || !by) return;
  let next = null; // the next one that can be reached: a day without runs is no link
  for (let away = 1; away < WALK_MAX && !next; away++) {
    next = event.currentTarget.querySelector(`:is(a, button)[data-day="${moved(day, away * by)}"]`);
  }
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
