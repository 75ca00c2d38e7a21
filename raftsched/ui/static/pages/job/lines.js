/** The requests and commands that create a job as it is. */

import { curlLine, quoted } from "../editor/model.js";

const TRIGGERS = ["cron", "rrule", "every", "at", "in"];
const TRIGGER_OPTIONS = { timezone: "--timezone", calendar: "--calendar", calendar_action: "--calendar-action" };
const TEXTS = ["timeout", "grace", "user", "overlap", "queue", "owner", "description"];
const NUMBERS = { priority: "--priority", max_concurrency: "--max-concurrency" };

/** Returns what creates the job: the content as it is stored, with its name and namespace. */
export function recipe(job, content) {
  const { name, namespace } = job;
  return { ...(name ? { name } : {}), ...(namespace === "default" ? {} : { namespace }), ...content };
}

/** Returns the curl line that creates the job at a server. */
export function createLine(server, job, content, options) {
  const { namespace, name } = job;
  if (!name) return curlLine("POST", `${server}/v1/jobs`, recipe(job, content), options);
  return curlLine("PUT", `${server}/v1/namespaces/${namespace}/jobs/${name}`, content, options);
}

/** Returns the command line that creates the job. */
export function commandLine(job, content) {
  // There is no option for several triggers: they are given as JSON.
  if (content.triggers?.length) return `raftsched jobs create -f - <<'JSON'\n${pretty(recipe(job, content))}\nJSON`;
  const words = ["raftsched", "jobs", "create"];
  const say = (...more) => words.push(...more);
  if (job.name) say(job.name);
  if (job.namespace !== "default") say("-N", job.namespace);
  const { trigger, handler, params, labels, ...rest } = content;
  for (const [key, value] of Object.entries(trigger)) {
    if (TRIGGERS.includes(key)) say(`--${key}`, value);
    else if (key === "manual") say("--manual");
    else if (key === "after") afterWords(value, say);
    else if (TRIGGER_OPTIONS[key]) say(TRIGGER_OPTIONS[key], value);
    else say("--set", setting(`trigger.${key}`, value));
  }
  const command = handlerWords(handler, say);
  if (params && Object.keys(params).length) say("--params", JSON.stringify(params));
  for (const [key, value] of Object.entries(labels ?? {})) say("--label", `${key}=${value}`);
  for (const [key, value] of Object.entries(rest)) {
    if (TEXTS.includes(key)) say(`--${key}`, value);
    else if (NUMBERS[key]) say(NUMBERS[key], value);
    else say("--set", setting(key, value));
  }
  if (command.length) say("--", ...command);
  return words.map(quoted).join(" ");
}

function pretty(value) {
  return JSON.stringify(value, null, 2);
}

function afterWords({ job, all_of: all, any_of: any, on, pass }, say) {
  for (const one of job ? [job] : (all ?? any ?? [])) say("--after", one);
  if (any) say("--after-any");
  if (on) say("--after-on", on);
  if (pass) say("--pass-results");
}

function handlerWords({ exec, shell, python, http, call, fresh, template, cwd, ...rest }, say) {
  if (shell !== undefined) say("--shell", shell);
  if (python !== undefined) say("--python", python);
  if (call !== undefined) say("--call", call);
  if (http) {
    const { url, method, ...more } = http;
    say("--http", url);
    if (method) say("--method", method);
    for (const [key, value] of Object.entries(more)) say("--set", setting(`handler.http.${key}`, value));
  }
  if (cwd) say("--cwd", cwd);
  if (fresh) say("--fresh");
  if (template) say("--template");
  for (const [key, value] of Object.entries(rest)) say("--set", setting(`handler.${key}`, value));
  return exec ?? [];
}

/** Returns a field for --set, which reads its value as JSON where it is JSON. */
function setting(path, value) {
  return `${path}=${JSON.stringify(value)}`;
}
