/** A month as a grid of days, with what each day has. */

import { DAY_MS, number, plural } from "../core/format.js";
import { h } from "../core/vdom.js";

const SHORT_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/**
 * Returns a month.
 *
 * @param {string} options.month "2026-11"
 * @param {Array<{date, due, left_out}>} options.days those that have any times; `left_out`: by a calendar
 * @param {string} [options.today] "2026-11-23"
 * @param {(by: number) => void} [options.move] goes that many months on
 */
export function monthCalendar({ month, days, today, move }) {
  const first = Date.parse(`${month}-01T00:00:00Z`);
  const title = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" }).format(first);
  const before = (new Date(first).getUTCDay() + 6) % 7;
  const of = new Map(days.map((day) => [day.date, day]));
  const most = Math.max(1, ...days.map((day) => day.due));
  const weeks = [];
  for (let at = first - before * DAY_MS; weeks.length < 6; at += 7 * DAY_MS) {
    const week = SHORT_DAYS.map((_, day) => new Date(at + day * DAY_MS).toISOString().slice(0, 10));
    if (!week.some((date) => date.startsWith(month))) break;
    weeks.push(week);
  }
  const total = days.reduce((sum, day) => sum + day.due, 0);
  return h(
    "div",
    { class: "month" },
    h(
      "div",
      { class: "month-head" },
      move ? arrow("‹", "The month before", () => move(-1)) : null,
      h(
        "p",
        { "aria-live": "polite" },
        h("strong", null, title),
        h("span", { class: "muted" }, ` · ${plural(total, "time")}`),
      ),
      move ? arrow("›", "The next month", () => move(1)) : null,
    ),
    h(
      "table",
      { class: "month-grid" },
      h("caption", { class: "sr" }, `${title}: how many times are due on each day`),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          SHORT_DAYS.map((day) => h("th", { scope: "col" }, day)),
        ),
      ),
      h(
        "tbody",
        null,
        weeks.map((week) =>
          h(
            "tr",
            { key: week[0] },
            week.map((date) => cell(date, month, of.get(date), today, most)),
          ),
        ),
      ),
    ),
  );
}

function cell(date, month, day, today, most) {
  if (!date.startsWith(month)) return h("td", { key: date, class: "other" });
  const due = day?.due ?? 0;
  const level = due ? Math.ceil((3 * Math.log1p(due)) / Math.log1p(most)) : 0;
  return h(
    "td",
    {
      key: date,
      class: [`level-${level}`, date === today && "today"],
      title: dueText(day, due),
      "aria-current": date === today ? "date" : null,
    },
    h("span", { class: "day" }, Number(date.slice(8))),
    due ? h("span", { class: "due" }, number(due), h("span", { class: "sr" }, due === 1 ? " time" : " times")) : null,
    day?.left_out
      ? h(
          "span",
          { class: "left-out" },
          h("span", { "aria-hidden": "true" }, `−${number(day.left_out)}`),
          h("span", { class: "sr" }, ` ${day.left_out} left out`),
        )
      : null,
  );
}

function dueText(day, due) {
  const text = plural(due, "time");
  return day?.left_out ? `${text}, and ${day.left_out} that the calendar leaves out` : text;
}

function arrow(sign, label, run) {
  return h("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick: run }, sign);
}
