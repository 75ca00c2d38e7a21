/** What a job is: what was said of it, what holds without being said, and the lines that would create it. */

import { card, copyButton, facts, shown } from "../../components/basics.js";
import { View, define } from "../../core/element.js";
import { health } from "../../core/health.js";
import { session } from "../../core/session.js";
import { h } from "../../core/vdom.js";
import { commandLine, createLine, recipe } from "./lines.js";
import { jobPath } from "./paths.js";

const CONTENT_WORDS = {
  trigger: "Trigger",
  handler: "What it runs",
  params: "Parameters",
  priority: "Priority (9 first)",
  timeout: "An attempt ends after",
  grace: "From TERM to KILL",
  user: "Runs as the user",
  delivery: "Delivery",
  max_lost: "Runs again after a lost worker, at most",
  suspend_after: "Suspended after failures in a row",
  retry: "Retries",
  outcomes: "Codes that mean something else",
  overlap: "When one is active already",
  misfire: "Missed times",
  max_concurrency: "Active at one time, at most",
  concurrency: "Limits of runs with the same key",
  conditions: "Conditions",
  conditions_timeout: "Waits for conditions at most",
  expires: "Skipped unless started within",
  placement: "Nodes",
  notify: "Tells",
  retention: "Keeps",
  queue: "Queue",
  owner: "Owner",
  description: "Description",
  labels: "Labels",
};
export const OVERLAP_WORDS = {
  forbid: "the new one is skipped",
  allow: "both run",
  queue_one: "the newest one waits",
  queue_all: "all wait for each other",
  replace: "the new one ends the other",
};
// Fields of an answer that are its state, not its content.
const CONTENT = Object.keys(CONTENT_WORDS);

class JobContent extends View {
  #job = null;

  set job(job) {
    this.#job = job;
    this.update();
  }

  render() {
    const { id } = this.#job;
    return shown(this.watch(`${jobPath(this.#job)}/revisions`, { on: [`job:${id}`] }), ({ items }) =>
      this.#body(items[0].content),
    );
  }

  #body(content) {
    const job = this.#job;
    const json = JSON.stringify(recipe(job, content), null, 2);
    const rest = CONTENT.filter((name) => !(name in content));
    return h(
      "div",
      { class: "stack" },
      card("Content", [
        wideFacts(
          CONTENT.filter((name) => name in content).map((name) => [CONTENT_WORDS[name], value(name, content[name])]),
        ),
        h(
          "details",
          { class: "rest" },
          h("summary", null, `${rest.length} fields have their defaults`),
          wideFacts(
            rest.map((name) => [CONTENT_WORDS[name], value(name, job[name]) ?? h("span", { class: "muted" }, "none")]),
          ),
        ),
      ]),
      card("As JSON", code(json), { actions: copyButton(json, "Copy the JSON") }),
      line("With curl", createLine(health.node, job, content, { token: session.signedIn }), "Copy the curl line"),
      line("On the command line", commandLine(job, content), "Copy the command"),
    );
  }
}
define("rs-job-content", JobContent);

function wideFacts(pairs) {
  return h("div", { class: "wide-facts" }, facts(pairs));
}

function line(title, text, label) {
  return card(title, code(text), { actions: copyButton(text, label) });
}

function code(text) {
  return h("pre", { class: "code", tabindex: "0" }, text);
}

/** Returns the value of a field for people; null for none. */
export function value(name, given) {
  if (given === null || given === undefined) return null;
  if (name === "handler") return handlerText(given);
  if (name === "overlap") return [h("code", null, given), `: ${OVERLAP_WORDS[given] ?? ""}`];
  if (name === "retry") return retryText(given);
  if (name === "outcomes")
    return Object.entries({ ...given.exit, ...given.status }).map(([codes, what]) =>
      h("div", { key: codes }, h("code", null, codes), `: ${what}`),
    );
  if (name === "misfire") return `${given.policy}, when more than ${given.grace} late`;
  if (name === "concurrency") return byKey(given);
  if (name === "retention") return `${given.succeeded} succeeded, ${given.failed} failed, for ${given.max_age}`;
  if (name === "conditions" && given.length)
    return h(
      "ul",
      null,
      given.map((one) => h("li", null, conditionText(one))),
    );
  if (name === "notify") return [given].flat().map((one) => h("div", null, notifyText(one)));
  if (typeof given !== "object") return String(given);
  if (!Object.keys(given).length) return null;
  if (name === "labels") return labels(given);
  return h("code", null, JSON.stringify(given));
}

/** Returns whom a job tells of what, in words. */
function notifyText({ webhook, on, late_by: late, longer_than: longer, p95_times: times, not_run_for: notRun }) {
  const long = [longer, times && `${times} times what is usual`].filter(Boolean).join(" or ");
  const measures = { late: `late by ${late}`, running_long: `running longer than ${long}`, not_run_since: `no success for ${notRun}` };
  return `${webhook} on ${on.map((event) => measures[event] ?? event.replaceAll("_", " ")).join(", ")}`;
}

function byKey({ key, max, rate }) {
  const limits = [max ? `${max} at one time` : null, rate ? `${rate.count} starts in ${rate.per}` : null];
  return [h("code", null, key), `: ${limits.filter(Boolean).join(", ")}`];
}

/** Returns labels as chips, each a link to the jobs that carry it. */
export function labels(given) {
  return Object.entries(given).map(([key, text]) =>
    h("a", { key, class: "chip", href: `/ui/jobs?label=${encodeURIComponent(`${key}=${text}`)}` }, `${key}=${text}`),
  );
}

function handlerText({ exec, shell, python, http, call, ...rest }) {
  const what =
    exec !== undefined
      ? ["exec ", exec.map((word) => [h("code", { class: "word" }, word), " "])]
      : shell !== undefined
        ? ["shell", h("pre", { class: "code", tabindex: "0" }, shell)]
        : python !== undefined
          ? ["python ", h("code", null, python)]
          : call !== undefined
            ? ["the handler ", h("code", null, call)]
            : http
              ? [`${http.method ?? "HTTP"} `, h("code", null, http.url)]
              : null;
  const { url, method, ...more } = http ?? {};
  const others = Object.entries({ ...more, ...rest });
  return [
    what,
    others.length
      ? facts(others.map(([key, one]) => [key, h("code", null, typeof one === "string" ? one : JSON.stringify(one))]))
      : null,
  ];
}

function retryText({ delays = [], jitter_percent: jitter, on = [] }) {
  if (!delays.length) return "none";
  const longer = jitter ? `, up to ${jitter} % longer` : "";
  return `${delays.length}, after ${delays.join(", ")}${longer}, when ${on.join(" or ").replaceAll("_", " ")}`;
}

function conditionText(one) {
  const { path, http, status, job_succeeded: job, within } = one;
  if (path) return ["the file ", h("code", null, path), " is there"];
  if (http) return [h("code", null, http), status ? ` answers ${status}` : " answers well"];
  if (!job) return h("code", null, JSON.stringify(one));
  const [namespace, ...name] = job.split("/");
  const known = h("a", { href: `/ui/jobs/${encodeURIComponent(`${namespace}/${name.join("/")}`)}` }, job);
  return [known, ` had a success within ${within}`];
}

/** Returns the content of a job. */
export function jobContent(job) {
  return h("rs-job-content", { ".job": job });
}
