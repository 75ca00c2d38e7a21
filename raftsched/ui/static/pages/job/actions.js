/** What can be done to a job, and the dialogs that ask before. */

import { timeOf } from "../../components/basics.js";
import { attempt, confirmDialog, toast } from "../../components/dialog.js";
import { triggersOf } from "../../components/trigger-text.js";
import { del, get, post } from "../../core/api.js";
import { absolute, moment, plural } from "../../core/format.js";
import { navigate } from "../../core/router.js";
import { session } from "../../core/session.js";
import { h } from "../../core/vdom.js";
import { openBackfill } from "./backfill.js";
import { jobPath } from "./paths.js";
import { zoneOf } from "./schedule.js";

/** Returns the buttons of what the token may do to the job now. `changed()`: the job is read again. */
export function jobActions(job, changed) {
  const { state, namespace, next_fire_at } = job;
  const over = state === "EXPIRED";
  const may = (operation) => session.may(operation, namespace);
  const past = triggersOf(job).some((one) => one.cron || one.rrule || (one.every && one.mode !== "fixed_delay"));
  const simple = (name, done) => attempt(() => post(`${jobPath(job)}/${name}`).then(changed), done);
  const buttons = [
    ["Run now", !over && may("actions_run"), () => runNow(job, changed), "primary"],
    [
      "Pause",
      state === "SCHEDULED" && may("actions_pause"),
      () => simple("pause", "Paused: nothing new starts; what runs goes on."),
    ],
    ["Resume", (state === "SUSPENDED" || state === "NEW") && may("actions_resume"), () => simple("resume", "Resumed.")],
    ["Skip next", next_fire_at && may("actions_skip_next"), () => skipNext(job, changed)],
    ["Backfill", past && !over && may("backfill_backfill"), () => openBackfill(job, changed)],
    ["Expire", !over && may("actions_expire"), () => expire(job, changed)],
    ["Delete", may("jobs_delete"), () => remove(job)],
  ];
  const shown = buttons
    .filter(([, offered]) => offered)
    .map(([words, , run, kind]) => h("button", { type: "button", key: words, class: kind, onclick: run }, words));
  if (may("jobs_patch")) {
    shown.splice(
      1,
      0,
      h("a", { key: "Edit", class: "button", href: `/ui/jobs/${encodeURIComponent(job.id)}/edit` }, "Edit"),
    );
  }
  return shown;
}

/** Returns what people call a job. */
export function nameOf({ name, id }) {
  return name ?? id;
}

/** Asks for the parameters of a run, and makes it. `params`: instead of the job's own; `changed` is given the run. */
export function runNow(job, changed, params = job.params ?? {}) {
  const given = JSON.stringify(job.params ?? {}, null, 2);
  let text = JSON.stringify(params, null, 2);
  let wrong = "";
  let priority = "";
  const check = (event) => {
    text = event.target.value;
    wrong = notObject(text);
    event.target.setCustomValidity(wrong);
    event.target.setAttribute("aria-invalid", String(Boolean(wrong)));
    event.target.form.querySelector("#run-params-error").textContent = wrong;
  };
  confirmDialog({
    title: `Run ${nameOf(job)} now`,
    action: "Run now",
    body: () =>
      stack(
        h("p", { class: "muted" }, "A run beside the schedule, with the job's present content."),
        h(
          "div",
          { class: "field" },
          h("label", { for: "run-params" }, "Parameters"),
          h("textarea", {
            id: "run-params",
            rows: Math.min(12, text.split("\n").length + 2),
            spellcheck: "false",
            value: text,
            oninput: check,
            "aria-describedby": "run-params-error run-params-help",
          }),
          h("p", { id: "run-params-error", class: "error", role: "status" }, wrong),
          h("p", { id: "run-params-help", class: "help" }, "A JSON object, instead of the job's own."),
        ),
        h(
          "div",
          { class: "field" },
          h("label", { for: "run-priority" }, "Priority"),
          h(
            "select",
            { id: "run-priority", value: priority, onchange: (event) => (priority = event.target.value) },
            h("option", { value: "" }, `${job.priority}, as the job has it`),
            [9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map((one) =>
              h("option", { key: one, value: one }, one === 9 ? "9, first" : one),
            ),
          ),
        ),
      ),
    run: async () => {
      const body = {};
      if (text !== given) body.params = JSON.parse(text);
      if (priority) body.priority = Number(priority);
      changed(await post(`${jobPath(job)}/run`, body));
      toast("A run was made.");
    },
  });
}

function stack(...parts) {
  return h("div", { class: "stack" }, ...parts);
}

/** Returns why a text is no JSON object; "" when it is one. */
export function notObject(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `This is no JSON: ${error.message.replace(/^JSON\.parse: /, "")}`;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return 'Parameters are an object, such as {"day": "monday"}.';
  return "";
}

async function skipNext(job, changed) {
  let next;
  try {
    ({ next } = await get(`${jobPath(job)}/next`, { count: 2 }));
  } catch {
    next = [];
  }
  const [first, second] = next;
  const shown = (one) => [
    h("strong", null, `${absolute(moment(one.at), zoneOf(job))} ${zoneOf(job)}`),
    " (",
    timeOf(one.at),
    ")",
  ];
  confirmDialog({
    title: "Skip the next run",
    action: "Skip it",
    body: stack(
      h(
        "p",
        null,
        first
          ? ["The run of ", shown(first), " is left out, and recorded as skipped."]
          : "The next run, whichever that is, is left out.",
      ),
      first
        ? h("p", { class: "muted" }, second ? ["Then it is due ", shown(second), "."] : "There is none after it.")
        : null,
    ),
    run: async () => {
      await post(`${jobPath(job)}/skip-next`, first ? { at: first.at } : {});
      changed();
      toast("The next run is skipped.");
    },
  });
}

function expire(job, changed) {
  let kill = false;
  confirmDialog({
    title: `Expire ${nameOf(job)}`,
    action: "Expire",
    danger: true,
    body: () =>
      stack(
        h("p", null, "It is never due again, and cannot be resumed. It stays visible with its history."),
        job.active
          ? h(
              "label",
              { class: "row" },
              h("input", { type: "checkbox", checked: kill, onchange: (event) => (kill = event.target.checked) }),
              `Also end the ${plural(job.active, "run")} that ${job.active === 1 ? "is" : "are"} active`,
            )
          : null,
      ),
    run: async () => {
      await post(`${jobPath(job)}/expire`, { kill });
      changed();
      toast("Expired.");
    },
  });
}

function remove(job) {
  const name = nameOf(job);
  let typed = "";
  confirmDialog({
    title: `Delete ${name}`,
    action: "Delete",
    danger: true,
    body: () =>
      stack(
        h("p", null, "The job and its history go away, and its name is free at once."),
        job.active
          ? [
              h(
                "p",
                { class: "warning" },
                `${plural(job.active, "run")} that ${job.active === 1 ? "is" : "are"} active will be ended.`,
              ),
              h(
                "div",
                { class: "field" },
                h("label", { for: "typed-name" }, ["Type ", h("code", null, name), " to confirm"]),
                h("input", {
                  id: "typed-name",
                  required: true,
                  autocomplete: "off",
                  spellcheck: "false",
                  value: typed,
                  oninput: (event) => typedName(event, name, (text) => (typed = text)),
                }),
              ),
            ]
          : null,
      ),
    run: async () => {
      await del(jobPath(job));
      toast(`${name} was deleted.`);
      await navigate("/ui/jobs", { replace: true });
    },
  });
}

function typedName(event, name, keep) {
  keep(event.target.value);
  event.target.setCustomValidity(event.target.value === name ? "" : "This is not the name of the job.");
}
