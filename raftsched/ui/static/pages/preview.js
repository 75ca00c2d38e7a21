/** The page on which a trigger is tried: in words, its times in several zones, and a month of them. */

import { monthCalendar } from "../charts/calendar.js";
import { card, heading, problem } from "../components/basics.js";
import { post } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { viewerZone } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { makeForm } from "./editor/form.js";
import { withValue } from "./editor/model.js";
import { knowsZone, timesTable, zoneList } from "./editor/times.js";
import { triggerFields } from "./editor/trigger.js";
import { dateOf, monthAfter, monthOf, startOfMonth } from "./job/months.js";

const PREVIEW_PAUSE_MS = 300;
const COUNT = 12;
const PREVIEW_KINDS = ["cron", "every", "rrule", "at", "in"];
const PREVIEW_DAYS_MS = 400 * 86_400_000; // as far as days are counted at once

export class PreviewPage extends Page {
  #trigger = null;
  #known = null;
  #days = null;
  #error = null;
  #month = null;
  #extra = ""; // a zone that is being typed
  #timer = 0;
  #asking = null;
  #opened = new Map();

  connected() {
    this.#read();
    this.#ask();
  }

  queryChanged() {
    this.#read();
    this.#ask();
  }

  disconnected() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  #read() {
    try {
      this.#trigger = JSON.parse(this.query.get("trigger"));
    } catch {
      this.#trigger = null; // a link that was cut
    }
    this.#trigger ??= { cron: "30 2 * * 1-5", timezone: viewerZone() };
  }

  get #zone() {
    const { timezone } = this.#trigger;
    return knowsZone(timezone) ? timezone : "UTC";
  }

  get #zones() {
    const extra = (this.query.get("zones") ?? "").split(",").filter(knowsZone);
    return [...new Set([this.#zone, viewerZone(), ...extra])];
  }

  #set(path, value) {
    this.#trigger = withValue({ trigger: this.#trigger }, path, value)?.trigger ?? {};
    this.setQuery({ trigger: JSON.stringify(this.#trigger) });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PREVIEW_PAUSE_MS);
  }

  async #ask() {
    this.#asking?.abort();
    const mine = (this.#asking = new AbortController());
    const zone = this.#zone;
    const month = (this.#month ??= monthOf(Date.now(), zone));
    // Counted from now on, as a trigger that is accepted now would be.
    const end = Math.min(startOfMonth(monthAfter(month, 1), zone), Date.now() + PREVIEW_DAYS_MS);
    const body = { trigger: this.#trigger };
    const options = { signal: mine.signal };
    try {
      const [known, days] = await Promise.all([
        post("/v1/schedules/preview", { ...body, count: COUNT }, options),
        post("/v1/schedules/preview", { ...body, count: 1, to: new Date(end).toISOString(), by_day: zone }, options),
      ]);
      [this.#known, this.#days, this.#error] = [
        known,
        (days.days ?? []).filter((day) => day.date.startsWith(month)),
        null,
      ];
    } catch (error) {
      if (mine.signal.aborted) return;
      this.#error = error;
    }
    this.update();
  }

  render() {
    const errors = this.#error?.errors ?? [];
    const form = makeForm({
      value: { trigger: this.#trigger },
      set: (path, value) => this.#set(path, value),
      errors,
      opened: this.#opened,
      update: () => this.update(),
    });
    const fields = triggerFields(form, { kinds: PREVIEW_KINDS });
    const known = this.#error ? null : this.#known;
    const create = `/ui/jobs/new?trigger=${encodeURIComponent(JSON.stringify(this.#trigger))}`;
    return [
      heading("Preview", {
        below: h("p", { class: "muted" }, "When would it run? Nothing is saved."),
        actions:
          known && session.may("jobs_create") ? h("a", { class: "button", href: create }, "Make a job of it") : null,
      }),
      card("Trigger", [fields, form.rest().length || (this.#error && !errors.length) ? problem(this.#error) : null]),
      known ? h("p", { class: "words", "aria-live": "polite" }, known.description) : null,
      known
        ? h("div", { class: "preview" }, card("Next times", this.#times(known)), card("Times by day", this.#calendar()))
        : null,
      zoneList(),
    ];
  }

  #times(known) {
    const fixed = [this.#zone, viewerZone()];
    const show = (zones) => this.setQuery({ zones: zones.filter((zone) => !fixed.includes(zone)).join(",") });
    const remove = (zone) => (fixed.includes(zone) ? null : () => show(this.#zones.filter((one) => one !== zone)));
    return [
      known.next.length
        ? timesTable(known.next, this.#zones, { remove })
        : h("p", { class: "muted" }, "It has no times."),
      h(
        "form",
        {
          class: "row zone-add",
          onsubmit: (event) => {
            event.preventDefault();
            if (!knowsZone(this.#extra)) return;
            show([...this.#zones, this.#extra]);
            this.#extra = "";
          },
        },
        h("input", {
          "aria-label": "Another time zone",
          placeholder: "Asia/Tokyo",
          list: "zones",
          value: this.#extra,
          oninput: (event) => {
            this.#extra = event.target.value;
            this.update();
          },
        }),
        h("button", { type: "submit", class: "small", disabled: !knowsZone(this.#extra) }, "Add a zone"),
      ),
    ];
  }

  #calendar() {
    const now = Date.now();
    const first = monthOf(now, this.#zone);
    const last = monthOf(now + PREVIEW_DAYS_MS, this.#zone);
    return [
      monthCalendar({
        month: this.#month,
        days: this.#days,
        today: dateOf(now, this.#zone),
        move: (by) => {
          const month = monthAfter(this.#month, by);
          if (month < first || month > last) return;
          this.#month = month;
          this.#ask();
        },
      }),
      h("p", { class: "muted small-note" }, `From now on, by the days of ${this.#zone}.`),
    ];
  }
}
define("rs-preview-page", PreviewPage);
