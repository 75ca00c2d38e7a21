/** The parts of the form of a job: the common ones first, the rest folded. */

import { card } from "../../components/basics.js";
import { triggerText } from "../../components/trigger-text.js";
import { h } from "../../core/vdom.js";
import { JOB_EVENT_NAME } from "../../core/words.js";
import "./inputs.js";
import { isObject } from "./model.js";
import { triggerFields } from "./trigger.js";

export const HANDLERS = {
  shell: ["Shell", "echo hello"],
  exec: ["Command", ["/usr/bin/env", "true"]],
  http: ["HTTP", { url: "https://", method: "POST" }],
  python: ["Python", "package.module:function"],
  call: ["Function", "name"],
};
const PROCESSES = ["env", "cwd", "limits"];
const TEMPLATES = "{due:%F}, {params.NAME}, {attempt}, {token}, {job} and others; {{ is a brace";
const METHODS = Object.fromEntries(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map((one) => [one, one]));
const OVERLAPS = {
  forbid: "forbid: leave the new one out",
  allow: "allow: run both",
  queue_one: "queue_one: one waits",
  queue_all: "queue_all: all wait",
  replace: "replace: end the one that runs",
};
const MISFIRES = { once: "once: run once for all", skip: "skip: leave them out", all: "all: run each" };
const DELIVERIES = { at_least_once: "at least once", at_most_once: "at most once" };
export const MEASURES = { late: ["late_by"], running_long: ["longer_than", "p95_times"], not_run_since: ["not_run_for"] };

/** Returns the kind of a handler as given. */
function handlerKind(handler) {
  return Object.keys(HANDLERS).find((kind) => handler?.[kind] !== undefined) ?? "shell";
}

/** Returns what stands in the place of a trigger's fields where there are several. */
function severalTriggers(form) {
  const triggers = form.at("triggers");
  return [
    h("p", { class: "muted" }, "This job has several triggers. They are edited in its JSON."),
    h(
      "ul",
      null,
      triggers.map((one, place) =>
        h(
          "li",
          { key: place },
          h("strong", null, one?.id ?? "?"),
          " ",
          h("code", null, isObject(one) ? triggerText(one) : ""),
          form.errors(`/triggers/${place}`),
        ),
      ),
    ),
    form.number(["max_runs"], "Runs of all, at most"),
    form.errors("/triggers"),
    form.errors("/trigger"),
  ];
}

/** Returns the form of a job. `isNew`: it is made here; `live`: what is known of its trigger. */
export function sections(form, { isNew, live }) {
  return [
    card("What it is", basics(form, isNew)),
    card("When", [form.at("triggers")?.length ? severalTriggers(form) : triggerFields(form), live]),
    card("What it does", handlerFields(form)),
    card("How it runs", [
      form.fold("fails", "When it fails", failing(form), [
        "/timeout",
        "/retry",
        "/outcomes",
        "/grace",
        "/suspend_after",
        "/delivery",
        "/max_lost",
      ]),
      form.fold("overlap", "When runs meet, or were missed", meeting(form), [
        "/overlap",
        "/max_concurrency",
        "/concurrency",
        "/misfire",
      ]),
      form.fold("conditions", "What it waits for", waiting(form), [
        "/conditions",
        "/conditions_timeout",
        "/expires",
      ]),
      form.fold("notify", "Who is told", telling(form), ["/notify"]),
      form.fold("where", "Where it runs, and how soon", placing(form), ["/queue", "/priority", "/placement", "/user"]),
      form.fold("kept", "Labels, and what is kept", keeping(form), ["/labels", "/retention"]),
    ]),
  ];
}

function basics(form, isNew) {
  return h(
    "div",
    { class: "fields" },
    form.text(["name"], "Name", {
      help: "makes it safe to create it again; without one it has only an id",
      hint: "nightly-report",
    }),
    isNew ? form.text(["namespace"], "Namespace", { list: "namespaces", hint: "default", help: "" }) : null,
    form.text(["description"], "Description", { wide: true }),
    form.text(["owner"], "Owner"),
    isNew ? form.check(["suspended"], "Create it suspended", "it is not scheduled until it is resumed") : null,
  );
}

function handlerFields(form) {
  const handler = form.at("handler");
  const kind = handlerKind(handler);
  const kept = (other) =>
    Object.fromEntries(Object.entries(handler ?? {}).filter(([name]) => PROCESSES.includes(name) && other !== "http"));
  const choose = (other) => form.set(["handler"], { [other]: HANDLERS[other][1], ...kept(other) });
  return [
    h(
      "div",
      { class: "kinds", role: "group", "aria-label": "Kind of handler" },
      Object.entries(HANDLERS).map(([one, [title]]) =>
        h(
          "button",
          {
            type: "button",
            key: one,
            class: "small",
            "aria-pressed": String(one === kind),
            onclick: () => one !== kind && choose(one),
          },
          title,
        ),
      ),
    ),
    form.errors("/handler"),
    h("div", { class: "fields" }, ofHandler(form, kind)),
    form.json(["params"], "Params", { hint: "{}", wide: true }),
    form.check(["handler", "template"], "Fill in templates when a run starts", TEMPLATES),
    kind === "http"
      ? null
      : form.fold(
          "process",
          "Environment, directory, limits",
          [
            form.pairs(["handler", "env"], "Environment", { secrets: true }),
            form.text(["handler", "cwd"], "Directory", { hint: "/srv/app", mono: true }),
            form.text(["handler", "limits", "memory"], "Memory", { hint: "512MiB" }),
            form.text(["handler", "limits", "cpu"], "Processor time", { hint: "60s" }),
            form.number(["handler", "limits", "open_files"], "Open files"),
            ["python", "call"].includes(kind)
              ? form.check(["handler", "fresh"], "A process of its own for each run")
              : null,
          ],
          ["/handler/env", "/handler/cwd", "/handler/limits", "/handler/fresh"],
        ),
  ];
}

function ofHandler(form, kind) {
  if (kind === "shell")
    return form.text(["handler", "shell"], "Command", {
      area: 3,
      wide: true,
      mono: true,
      keep: true,
      help: "given to sh -c",
    });
  if (kind === "exec")
    return form.list(["handler", "exec"], "Program and its arguments", {
      lines: true,
      keep: true,
      wide: true,
      help: "one in each line; no shell reads them",
    });
  if (kind === "python")
    return form.text(["handler", "python"], "Function", {
      wide: true,
      mono: true,
      keep: true,
      help: "package.module:function, called with params as keywords",
    });
  if (kind === "call")
    return form.text(["handler", "call"], "Function", { keep: true, help: "one that a node announces by this name" });
  return [
    form.text(["handler", "http", "url"], "Address", { wide: true, mono: true, keep: true }),
    form.choice(["handler", "http", "method"], "Method", METHODS),
    form.list(["handler", "http", "expected_status"], "Good statuses", { hint: "200, 204", help: "2xx unless given" }),
    form.pairs(["handler", "http", "headers"], "Headers", { secrets: true }),
    form.text(["handler", "http", "body"], "Body", { area: 3, wide: true, mono: true }),
    form.errors("/handler/http"),
  ];
}

function failing(form) {
  return [
    form.text(["timeout"], "Timeout"),
    form.list(["retry", "delays"], "Retry after", {
      hint: "5s, 1m, 10m",
      help: "delays before the second attempt, the third, ...; or the rule below",
    }),
    form.text(["retry", "exponential", "first"], "Rule: the first delay", { hint: "1s" }),
    form.number(["retry", "exponential", "factor"], "Rule: times", { hint: "2" }),
    form.text(["retry", "exponential", "max"], "Rule: no delay above", { hint: "1h" }),
    form.number(["retry", "exponential", "attempts"], "Rule: retries", { hint: "5" }),
    form.number(["retry", "jitter_percent"], "Lengthened at random by up to, in percent", { hint: "0" }),
    form.list(["retry", "on"], "Retry what", { hint: "failed, timed_out" }),
    form.errors("/retry"),
    form.pairs(["outcomes", "exit"], "Exit codes that mean something else", {
      help: "75 = snooze 5m, 78 = cancel, 64-70 = fail, 3 = succeed",
    }),
    form.pairs(["outcomes", "status"], "Statuses of HTTP that mean something else", {
      help: "429 = snooze, 404 = cancel",
    }),
    form.errors("/outcomes"),
    form.number(["suspend_after"], "Suspend after"),
    form.text(["grace"], "Grace"),
    form.choice(["delivery"], "Delivery", DELIVERIES),
    form.number(["max_lost"], "Lost workers"),
  ];
}

function meeting(form) {
  return [
    form.choice(["overlap"], "Overlap", OVERLAPS),
    form.number(["max_concurrency"], "At one time"),
    form.text(["concurrency", "key"], "Limits by key: the key", {
      hint: "{params.tenant}",
      help: "runs of all jobs of the namespace with the same key share these limits",
    }),
    form.number(["concurrency", "max"], "With the same key at one time"),
    form.number(["concurrency", "rate", "count"], "With the same key: starts", { hint: "10" }),
    form.text(["concurrency", "rate", "per"], "in each", { hint: "1m" }),
    form.errors("/concurrency"),
    form.choice(["misfire", "policy"], "Missed times", MISFIRES),
    form.text(["misfire", "grace"], "Missed after", { hint: "15m", help: "later than this counts as missed" }),
    form.errors("/misfire"),
  ];
}

export const CONDITIONS = {
  path: ["A file is there", { path: "/" }],
  http: ["An address answers well", { http: "https://" }],
  job_succeeded: ["A job succeeded", { job_succeeded: "default/", within: "1h" }],
};

function waiting(form) {
  const make = (one, change, at) => {
    const kind = Object.keys(CONDITIONS).find((name) => one[name] !== undefined) ?? "path";
    const input = (name, title, hint) =>
      h("input", {
        key: name,
        "aria-label": `Condition ${at + 1}: ${title}`,
        placeholder: hint,
        value: one[name] ?? "",
        oninput: (event) => {
          const { [name]: _, ...rest } = one;
          const text = event.target.value;
          change(
            text === "" && name !== kind
              ? rest
              : {
                  ...one,
                  [name]: name === "status" && /^\d+$/.test(text) ? Number(text) : text,
                },
          );
        },
      });
    return [
      h(
        "select",
        {
          "aria-label": `Condition ${at + 1}`,
          value: kind,
          onchange: (event) => change(CONDITIONS[event.target.value][1]),
        },
        Object.entries(CONDITIONS).map(([name, [title]]) => h("option", { value: name, key: name }, title)),
      ),
      input(kind, CONDITIONS[kind][0], ""),
      kind === "http" ? input("status", "status", "2xx") : null,
      kind === "job_succeeded" ? input("within", "within", "within 1h") : null,
    ];
  };
  return [
    form.items(["conditions"], "Conditions", { make, fresh: { path: "/" }, add: "Add a condition" }),
    form.text(["conditions_timeout"], "Give up after"),
    form.text(["expires"], "Skip unless started within"),
  ];
}

/** Returns an input for each measure that the chosen events need. */
function measures(one, change) {
  const input = (event, name, words, read = (text) => text) =>
    one.on?.includes(event)
      ? h("input", {
          "aria-label": words,
          key: name,
          placeholder: words,
          value: one[name] ?? "",
          oninput: ({ target }) => change({ ...one, [name]: target.value === "" ? undefined : read(target.value) }),
        })
      : null;
  return [
    input("late", "late_by", "late by, as 30s"),
    input("running_long", "longer_than", "longer than, as 10m"),
    input("running_long", "p95_times", "or times what is usual, as 2", (text) => (isNaN(text) ? text : Number(text))),
    input("not_run_since", "not_run_for", "no success for, as 25h"),
  ].filter(Boolean);
}

function telling(form) {
  const make = (one, change, at) => [
    h("input", {
      "aria-label": `Webhook ${at + 1}`,
      list: "webhooks",
      placeholder: "webhook",
      value: one.webhook ?? "",
      oninput: (event) => change({ ...one, webhook: event.target.value }),
    }),
    h(
      "div",
      { class: "row", role: "group", "aria-label": "Events that it is told of" },
      JOB_EVENT_NAME.map((event) => {
        const on = Array.isArray(one.on) ? one.on : [];
        const flip = ({ target }) => {
          if (target.checked) return change({ ...one, on: [...on, event] });
          const unmeasured = Object.fromEntries((MEASURES[event] ?? []).map((name) => [name, undefined]));
          return change({ ...one, ...unmeasured, on: on.filter((other) => other !== event) });
        };
        return h(
          "label",
          { class: "check", key: event },
          h("input", { type: "checkbox", checked: on.includes(event), onchange: flip }),
          ` ${event.replaceAll("_", " ")}`,
        );
      }),
    ),
    ...measures(one, change),
  ];
  return form.items(["notify"], "Webhooks", {
    make,
    fresh: { webhook: "", on: ["failed", "timed_out"] },
    add: "Add a webhook",
  });
}

function placing(form) {
  return [
    form.text(["queue"], "Queue", { list: "queues" }),
    form.number(["priority"], "Priority"),
    form.text(["user"], "User"),
    form.pairs(["placement", "labels"], "Labels that a node must have", { help: "" }),
    form.errors("/placement"),
  ];
}

function keeping(form) {
  return [
    form.pairs(["labels"], "Labels"),
    form.number(["retention", "succeeded"], "Runs kept that succeeded"),
    form.number(["retention", "failed"], "Runs kept that failed"),
    form.text(["retention", "max_age"], "Kept no longer than"),
    form.errors("/retention"),
  ];
}
