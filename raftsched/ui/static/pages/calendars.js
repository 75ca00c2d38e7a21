/** The calendars, and one of them on the page of a year: days are changed by a click, and saved together. */

import { card, problem } from "../components/basics.js";
import { confirmDialog, toast } from "../components/dialog.js";
import { ResourcePage, ResourcesPage, about, button, ifMatch, linkTo } from "../components/resource.js";
import {
  DAYS,
  LISTS,
  WEEKDAYS,
  WORDS,
  dayText,
  exclusionOf,
  toggled,
  weekdayOf,
  withRange,
  yearPage,
} from "../charts/year.js";
import { patch } from "../core/api.js";
import { define } from "../core/element.js";
import { plural } from "../core/format.js";
import { h } from "../core/vdom.js";

const DAY_MODES = { date: "once", yearly: "every year", range: "from … to …" };
const YEARS = [1970, 2099];
const DAYS_SHOWN = 12; // days of a list that are written out

/** Returns what a calendar excludes, in words. */
function contentText({ dates, ranges, yearly, weekdays, hours, only, excludes }) {
  const found = [
    weekdays.join(", "),
    hours.map(hoursText).join(", "),
    only.length && `all but ${only.map(hoursText).join(", ")}`,
    excludes.length && plural(excludes.length, "time range"),
    yearly.length && `${plural(yearly.length, "day")} each year`,
    dates.length && plural(dates.length, "date"),
    ranges.length && plural(ranges.length, "range"),
  ];
  return found.filter(Boolean).join(" · ") || "nothing";
}

/** Returns hours in words, such as "mon, fri 22:00 to 06:00". */
function hoursText({ from, to, weekdays }) {
  return `${weekdays?.length ? `${weekdays.join(", ")} ` : ""}${from} to ${to}`;
}

const CALENDAR = {
  noun: "calendar",
  title: "Calendars",
  says: "Days and hours in which nothing is due, for all jobs whose trigger names the calendar.",
  path: "/v1/calendars",
  ui: "/ui/calendars",
  on: ["calendars"],
  operations: "calendars",
  named: "triggers name it in their field calendar",
  fields: [
    { pointer: "/description", label: "Description" },
    { pointer: "/timezone", label: "Time zone", placeholder: "Europe/Madrid", help: "empty: that of each trigger" },
  ],
  body: (given, { dates, ranges, yearly, weekdays, hours, only, excludes } = {}) => ({
    ...{ dates, ranges, yearly, weekdays, hours, only, excludes },
    ...given,
  }),
  deletion: "Only a calendar that no job uses can be deleted.",
  absent: "Create it, then mark its days on the page of a year.",
  empty: ["There are no calendars.", "Create one for the days on which jobs should not run, such as holidays."],
  columns: [
    { title: "Calendar", cell: (calendar) => linkTo(CALENDAR, calendar.name) },
    { title: "Excluded", cell: contentText },
    { title: "Time zone", cell: (calendar) => calendar.timezone ?? "each trigger's" },
    { title: "Description", cell: (calendar) => calendar.description ?? "", class: "wide-only" },
  ],
};

export class CalendarsPage extends ResourcesPage {
  kind = CALENDAR;
}
define("rs-calendars-page", CalendarsPage);

export class CalendarPage extends ResourcePage {
  kind = CALENDAR;
  #draft = null; // the calendar as it is to be, with the revision that it was made of
  #mode = "date";
  #from = null; // the first day of a range that is being picked
  #says = "";
  #error = null;
  #busy = false;

  connected() {
    super.connected();
    this.on(window, "beforeunload", (event) => this.#draft && event.preventDefault());
  }

  mayLeave() {
    const body = "The changed days are not saved.";
    return !this.#draft || confirmDialog({ title: "Leave without saving?", body, action: "Leave", danger: true });
  }

  below(calendar) {
    return h("p", { class: "muted" }, calendar.description);
  }

  parts(calendar) {
    const content = { ...calendar, ...this.#draft };
    const may = this.may("patch");
    return [
      this.#year(calendar, content, may),
      this.#draft ? this.#unsaved(calendar) : null,
      about(calendar, [
        ["Time zone", calendar.timezone ?? "that of each trigger"],
        ["Ranges", some(content.ranges.map(({ from, to }) => `${from} to ${to}`))],
        ["Every year", some(content.yearly)],
        ["Once", some(content.dates)],
        ["Hours", some(content.hours.map(hoursText))],
        ["All but", some(content.only.map(hoursText))],
        ["Times", some(content.excludes.map(({ from, to }) => `${from} to ${to}`))],
      ]),
      this.jobsOf(
        "calendar",
        "No job uses this calendar.",
        `Say "calendar": "${this.name}" in the trigger of a job, and it is not due then.`,
      ),
    ];
  }

  #year(calendar, content, may) {
    const today = new Intl.DateTimeFormat("en-CA", { timeZone: calendar.timezone ?? undefined }).format();
    const given = Number(this.query.get("year"));
    const year = given >= YEARS[0] && given <= YEARS[1] ? given : Number(today.slice(0, 4));
    const kindOf = exclusionOf(content);
    const saved = exclusionOf(calendar);
    const step = (by, words, mark) =>
      button(mark, () => this.setQuery({ year: year + by }), {
        "aria-label": words,
        title: words,
        disabled: year === YEARS[by > 0 ? 1 : 0],
      });
    const mark = ([kind, words]) =>
      h("li", { key: kind }, h("span", { class: `year-day year-${kind}`, "aria-hidden": "true" }, "12"), ` ${words}`);
    return card(
      String(year),
      [
        may ? this.#tools(content) : null,
        yearPage(year, {
          kindOf: (day) => (day === this.#from ? "range" : kindOf(day)),
          isChanged: (day) => day === this.#from || kindOf(day) !== saved(day),
          today,
          focused: today.startsWith(year) ? today : `${year}-01-01`,
          onPick: may && ((day) => this.#pick(content, day, kindOf(day))),
        }),
        h(
          "ul",
          { class: "year-legend", "aria-label": "Marks" },
          Object.entries({ ...WORDS, today: "today" }).map(mark),
        ),
      ],
      {
        actions: [
          step(-1, "Year before", "←"),
          button("This year", () => this.setQuery({ year: null })),
          step(1, "Next year", "→"),
        ],
      },
    );
  }

  #tools(content) {
    const choose = (mode) => {
      this.#mode = mode;
      this.#from = null;
      this.update();
    };
    const weekly = (day, on) => {
      const weekdays = WEEKDAYS.filter((one) => (one === day ? on : content.weekdays.includes(one)));
      this.#change({ weekdays });
    };
    const choices = (legend, of) =>
      h(
        "fieldset",
        { class: "row" },
        h("legend", null, legend),
        of.map(([key, words, props]) => h("label", { key }, h("input", props), ` ${words}`)),
      );
    const modes = Object.entries(DAY_MODES).map(([mode, words]) => {
      const checked = this.#mode === mode;
      return [mode, words, { type: "radio", name: "mode", checked, onchange: () => choose(mode) }];
    });
    const days = WEEKDAYS.map((day, at) => {
      const checked = content.weekdays.includes(day);
      return [
        day,
        DAYS[at].slice(0, 3),
        { type: "checkbox", checked, "aria-label": DAYS[at], onchange: () => weekly(day, !checked) },
      ];
    });
    return h(
      "div",
      { class: "year-tools" },
      choices("A click on a day excludes it", modes),
      choices("Excluded every week", days),
      h(
        "p",
        { class: "year-says", role: "status" },
        this.#from ? `From ${dayText(this.#from)}: choose the last day.` : this.#says,
      ),
    );
  }

  #pick(content, day, kind) {
    this.#says = "";
    if (this.#from) {
      this.#change(withRange(content, this.#from, day));
      this.#from = null;
    } else if (this.#mode === "range" && (!kind || kind === "weekday")) {
      this.#from = day;
    } else if (kind === "weekday") {
      this.#says = `Every ${DAYS[weekdayOf(day)]} is excluded; take the weekday out above.`;
    } else {
      this.#change(toggled(content, day, kind, this.#mode));
    }
    this.update();
  }

  #change(lists) {
    const calendar = this.resource.data;
    const draft = { ...calendar, ...this.#draft, ...lists };
    this.#draft = LISTS.some((name) => differ(draft[name], calendar[name])) ? draft : null;
    this.#error = null;
    this.update();
  }

  #unsaved(calendar) {
    const changed = LISTS.filter((name) => differ(this.#draft[name], calendar[name]));
    const save = async () => {
      this.#busy = true;
      try {
        await patch(
          this.path,
          Object.fromEntries(changed.map((name) => [name, this.#draft[name]])),
          ifMatch(this.#draft.revision),
        );
        await this.resource.reload();
        this.#draft = null;
        toast(`Saved ${this.name}`);
      } catch (error) {
        this.#error = error;
      }
      this.#busy = false;
      this.update();
    };
    const discard = () => {
      this.#draft = this.#error = null;
      this.resource.reload();
      this.update();
    };
    return h(
      "div",
      { class: "save-bar", role: "region", "aria-label": "Unsaved changes" },
      h(
        "p",
        null,
        h("strong", null, "Not saved: "),
        `${changed.join(", ")}. The jobs that use the calendar get new next times.`,
      ),
      problem(this.#error),
      h(
        "div",
        { class: "actions" },
        button("Save", save, { class: "primary", disabled: this.#busy }),
        button("Discard", discard),
      ),
    );
  }
}
define("rs-calendar-page", CalendarPage);

function differ(one, other) {
  return JSON.stringify(one) !== JSON.stringify(other);
}

function some(items) {
  return (
    items.slice(0, DAYS_SHOWN).join(", ") + (items.length > DAYS_SHOWN ? ` and ${items.length - DAYS_SHOWN} more` : "")
  );
}
