/** A year's page: twelve months, in which each day is marked by what excludes it. */

import { h } from "../core/vdom.js";
import { monthsOf, moved, weekdayOf } from "./year-days.js";

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const LETTERS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
export const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
export const WORDS = { date: "excluded once", range: "in a range", yearly: "excluded every year", weekday: "excluded every week" };
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };

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
    const says = [dayText(day), WORDS[kind], isChanged(day) && "not saved", day === today && "today"].filter(Boolean).join(", ");
    const props = {
      class: ["day", kind && `day-${kind}`, isChanged(day) && "day-changed", day === today && "day-today"],
      "data-day": day,
      title: says,
      "aria-label": says,
    };
    const number = String(Number(day.slice(8)));
    const button = { ...props, type: "button", "aria-pressed": String(Boolean(kind)), tabindex: day === focused ? "0" : "-1" };
    return h("td", { key: day }, onPick ? h("button", button, number) : h("span", { ...props, role: "img" }, number));
  };
  const month = (weeks, at) =>
    h(
      "table",
      { class: "month", key: `${year}-${at}` },
      h("caption", null, MONTHS[at]),
      h("thead", null, h("tr", null, LETTERS.map((text, day) => h("th", { scope: "col", abbr: DAYS[day] }, text)))),
      h("tbody", null, weeks.map((days, week) => h("tr", { key: week }, LETTERS.map((_, day) => cell(days[day] ?? null, day))))),
    );
  const picked = (event) => {
    const day = event.target.closest("button[data-day]")?.dataset.day;
    if (day) onPick(day);
  };
  return h("div", { class: "year", onclick: picked, onkeydown: walk }, monthsOf(year).map(month));
}

/** Moves the focus by the arrow keys: only one day is reached by Tab. */
function walk(event) {
  const day = event.target.dataset.day;
  const by = STEPS[event.key];
  const next = day && by && event.currentTarget.querySelector(`[data-day="${moved(day, by)}"]`);
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
