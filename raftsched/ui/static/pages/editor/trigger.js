/** The part of a form that says when: one of the kinds of triggers, and what goes with it. */

import { viewerZone } from "../../core/format.js";
import { h } from "../../core/vdom.js";

export const TRIGGER_KINDS = {
  cron: ["Cron", "0 2 * * 1-5"],
  every: ["Every", "15m"],
  rrule: ["RRULE", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17"],
  at: ["At", ""],
  in: ["In", "30m"],
  after: ["After", { job: "" }],
  manual: ["Started by hand", true],
};
const HELP = {
  cron: "minute hour day month weekday; seconds first, a year last, @daily and H are read, too",
  every: "a duration: 10s, 15m, 1h30m, 1d",
  rrule: "a recurrence rule of RFC 5545",
  at: "once, at a time such as 2030-01-31T02:00:00Z",
  in: "once, so long after it is accepted: 30m",
  after: "when runs of other jobs have ended: names, or namespace/name",
  manual: "only when somebody asks for a run",
};
const ACTIONS = { skip: "skip: is left out", move: "move: comes at its end, once" };
const RECURRING = ["cron", "every", "rrule"];
const WITH = {
  // what may stand beside each kind
  timezone: ["cron", "rrule"],
  calendar: RECURRING,
  calendar_action: RECURRING,
  dialect: ["cron"],
  mode: ["every"],
  jitter: [...RECURRING, "at", "in"],
  starts_at: RECURRING,
  ends_at: RECURRING,
  max_runs: [...RECURRING, "after"],
};
const AFTER_WHICH = { job: "of one job", all_of: "of all of these", any_of: "of the first of these" };

/** Returns the kind of a trigger as given. */
export function kindOf(trigger) {
  return Object.keys(TRIGGER_KINDS).find((kind) => trigger?.[kind] !== undefined) ?? "cron";
}

/** Returns the trigger of another kind, with what may stay of what was said. */
export function ofKind(trigger, kind) {
  const kept = Object.entries(trigger ?? {}).filter(
    ([name]) => !(name in TRIGGER_KINDS) && (WITH[name] ?? [kind]).includes(kind),
  );
  const begin =
    kind === "at" ? new Date(Date.now() + 3_600_000).toISOString().slice(0, 19) + "Z" : TRIGGER_KINDS[kind][1];
  const zone = WITH.timezone.includes(kind) ? { timezone: viewerZone() } : {};
  return { [kind]: begin, ...zone, ...Object.fromEntries(kept) };
}

/** Returns the fields that say which jobs one follows. */
function afterFields(form) {
  const { job, all_of: all, any_of: any, ...rest } = form.at("trigger", "after") ?? {};
  const which = all ? "all_of" : any ? "any_of" : "job";
  const names = all ?? any ?? (job ? [job] : []);
  const chosen = (event) => {
    const to = event.target.value;
    form.set(["trigger", "after"], { [to]: to === "job" ? (names[0] ?? "") : names, ...rest });
  };
  return [
    h(
      "div",
      { class: "field", key: "which" },
      h("label", { for: "f-after-which" }, "When runs have ended"),
      h(
        "select",
        { id: "f-after-which", value: which, onchange: chosen },
        Object.entries(AFTER_WHICH).map(([one, words]) => h("option", { value: one, key: one }, words)),
      ),
    ),
    which === "job"
      ? form.text(["trigger", "after", "job"], "Job", { help: HELP.after, mono: true, keep: true })
      : form.list(["trigger", "after", which], "Jobs", { help: HELP.after, keep: true }),
    form.choice(["trigger", "after", "on"], "How they ended", {
      succeeded: "succeeded",
      failed: "failed or timed out",
      ended: "whichever way",
    }),
    form.choice(["trigger", "after", "pass"], "Params get", { result: "their results, as upstream" }),
  ];
}

/** Returns the fields of a trigger. `form`: see form.js. `kinds`: those that are offered. */
export function triggerFields(form, { kinds = Object.keys(TRIGGER_KINDS), folded = true } = {}) {
  const trigger = form.at("trigger");
  const kind = kindOf(trigger);
  const has = (name) => WITH[name].includes(kind);
  const more = [
    has("jitter") ? form.text(["trigger", "jitter"], "Put off at random by up to", { hint: "30s" }) : null,
    has("starts_at") ? form.text(["trigger", "starts_at"], "Not before", { hint: "2030-01-31T00:00:00Z" }) : null,
    has("ends_at") ? form.text(["trigger", "ends_at"], "Not after", { hint: "2030-12-31T00:00:00Z" }) : null,
    has("max_runs") ? form.number(["trigger", "max_runs"], "Runs at most") : null,
    has("mode")
      ? form.choice(["trigger", "mode"], "Counted from", {
          fixed_rate: "the times of its grid",
          fixed_delay: "the end of the run before",
        })
      : null,
    has("dialect")
      ? form.choice(["trigger", "dialect"], "Dialect", { vixie: "Vixie: 0 is Sunday", quartz: "Quartz: 1 is Sunday" })
      : null,
  ].filter(Boolean);
  return [
    h(
      "div",
      { class: "kinds", role: "group", "aria-label": "Kind of trigger" },
      kinds.map((one) =>
        h(
          "button",
          {
            type: "button",
            key: one,
            class: "small",
            "aria-pressed": String(one === kind),
            onclick: () => one !== kind && form.set(["trigger"], ofKind(trigger, one)),
          },
          TRIGGER_KINDS[one][0],
        ),
      ),
    ),
    form.errors("/trigger"),
    h(
      "div",
      { class: "fields" },
      kind === "manual"
        ? h("p", { class: "muted", key: "manual" }, HELP.manual)
        : kind === "after"
          ? afterFields(form)
          : form.text(["trigger", kind], TRIGGER_KINDS[kind][0], {
            help: HELP[kind],
            wide: true,
            mono: true,
            keep: true,
          }),
      has("timezone") ? form.text(["trigger", "timezone"], "Time zone", { list: "zones", hint: "UTC" }) : null,
      has("calendar")
        ? form.text(["trigger", "calendar"], "Not in the time of calendar", { list: "calendars", hint: "none" })
        : null,
      has("calendar") && form.at("trigger")?.calendar
        ? form.choice(["trigger", "calendar_action"], "What falls into that", ACTIONS)
        : null,
    ),
    more.length && folded ? form.fold("trigger-more", "Bounds and jitter", more) : h("div", { class: "fields" }, more),
  ];
}
