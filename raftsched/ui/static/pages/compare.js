/** Two runs of a job, side by side: what they were given, how they went, and what they printed. */

import { card, empty, heading, loading, problem, stateBadge, table, timeOf } from "../components/basics.js";
import { get, request } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { bytes, duration, executorOf, moment, number, plain, tookOf } from "../core/format.js";
import { navigate } from "../core/router.js";
import { h } from "../core/vdom.js";
import { diff, lines } from "./job/diff.js";
import { runLink, runPath } from "./job/paths.js";

const OUTPUT_MAX = 64 * 1024; // bytes of each output, from its end
const COMPARED_MAX = 400; // lines in which two outputs are compared; also of lines()
const AROUND = 3; // lines shown before and after those that differ

/** Returns the address of the comparison of a run with another: its id, "before" or "good". */
function compareLink(one, other) {
  return `/ui/compare?a=${encodeURIComponent(other)}&b=${encodeURIComponent(one.id)}`;
}

/** Returns links to the comparisons of a run that one asks for first. */
export function compareLinks(one) {
  if (!one.attempts.length) return null;
  return h(
    "span",
    { class: "compare-links" },
    " · compare with ",
    h("a", { href: compareLink(one, "before") }, "the run before"),
    " or ",
    h("a", { href: compareLink(one, "good") }, "the last that succeeded"),
  );
}

export class ComparePage extends Page {
  #runs = null; // the older one first
  #outputs = null;
  #error = null;
  #none = null;
  #key = "";

  connected() {
    this.#load();
  }

  queryChanged() {
    this.#load();
  }

  async #load() {
    const [a, b] = [this.query.get("a") ?? "", this.query.get("b") ?? ""];
    if (this.#key === `${a} ${b}`) return;
    this.#key = `${a} ${b}`;
    this.#runs = this.#outputs = this.#error = this.#none = null;
    this.update();
    const options = { signal: this.signal };
    try {
      if (!a || !b) throw new Error("The address names no two runs.");
      const newer = await get(runPath({ id: b }), null, options);
      if (a === "before" || a === "good") {
        const query = { job: newer.job_id, to: newer.scheduled_at, limit: 1, state: a === "good" ? "SUCCEEDED" : undefined, fields: "id" };
        const { items } = await get("/v1/instances", query, options);
        if (items.length) return void navigate(compareLink(newer, items[0].id), { replace: true });
        this.#none = a;
        this.#runs = [newer];
      } else {
        this.#runs = [await get(runPath({ id: a }), null, options), newer];
        this.update();
        this.#outputs = await Promise.all(this.#runs.map((run) => outputOf(run, this.signal)));
      }
    } catch (error) {
      if (this.signal.aborted) return;
      this.#error = error;
    }
    this.update();
  }

  render() {
    const runs = this.#runs;
    if (this.#error) return [heading("Compare runs"), problem(this.#error)];
    if (!runs) return [heading("Compare runs"), loading()];
    const name = runs[0].job_name ?? runs[0].job_id;
    const above = h("a", { href: `/ui/jobs/${runs[0].job_id}` }, runs[0].namespace ? `${runs[0].namespace}/${name}` : name);
    if (this.#none)
      return [
        heading(`Two runs of ${name}`, { above }),
        empty(
          this.#none === "good" ? "No earlier run that succeeded is kept." : "No earlier run is kept.",
          "The cluster keeps runs as the job's retention says.",
          h("a", { class: "button", href: runLink(runs[0]) }, "Back to the run"),
        ),
      ];
    const [a, b] = runs;
    return [
      heading(`Two runs of ${name}`, {
        above,
        below: a.job_id === b.job_id ? null : h("p", { class: "warning" }, "They are runs of different jobs."),
      }),
      card("How they went", this.#facts(a, b)),
      card("What they were given", this.#values(a, b)),
      card("Output", this.#output()),
    ];
  }

  #facts(a, b) {
    const rows = [
      ["Run", (run) => h("a", { href: runLink(run), class: "mono" }, run.id), () => ""],
      ["State", ({ state }) => stateBadge(state), ({ state }) => state],
      ["Scheduled", (run) => timeOf(run.scheduled_at, { relative: false }), () => ""],
      ["Waited", (run) => duration((moment(run.started_at) ?? Date.now()) - moment(run.created_at)), () => ""],
      ["Took", (run) => took(run, a, b), () => ""],
      ["Exit code", ({ exit_code: code }) => code ?? "–"],
      ["Reason", ({ reason }) => reason?.replaceAll("_", " ") ?? "–"],
      ["Error", ({ error }) => (error ? plain(error).trim().split("\n").at(-1) : "–")],
      ["Node", executorOf],
      ["Attempts", ({ attempts }) => number(attempts.length)],
      ["Revision of the job", (run) => number(run.job_revision)],
      ["Priority", ({ priority }) => number(priority)],
      ["Output", ({ output }) => (output ? bytes(output.size) : "–"), () => ""],
    ];
    const differs = ([, cell, key = cell]) => key(a) !== key(b);
    const columns = [
      { title: "What", cell: (row) => h("strong", null, row[0], differs(row) ? " ≠" : "") },
      { title: "First", cell: ([, cell]) => cell(a) },
      { title: "Second", cell: ([, cell]) => cell(b) },
    ];
    return table(columns, rows, {
      key: ([title]) => title,
      caption: "How they went",
      rowProps: (row) => ({ class: differs(row) ? "differs" : null }),
    });
  }

  #values(a, b) {
    const given = ({ params, passed, event, key, trigger }) => ({ params, passed, event, key, trigger });
    const found = diff(given(a), given(b));
    if (!found.length) return h("p", { class: "muted" }, a.params ? "The same parameters." : "No parameters, either of them.");
    const text = (value) => (value === undefined ? "–" : JSON.stringify(value));
    return h(
      "dl",
      { class: "diff" },
      found.map(({ path, before, after }) =>
        h(
          "div",
          { key: path },
          h("dt", { class: "mono" }, path),
          h("dd", null, h("pre", { class: "line-removed" }, `- ${text(before)}`), h("pre", { class: "line-added" }, `+ ${text(after)}`)),
        ),
      ),
    );
  }

  #output() {
    if (!this.#outputs) return loading();
    const wrong = this.#outputs.find((one) => one instanceof Error);
    if (wrong) return problem(wrong);
    const [a, b] = this.#outputs;
    const cut = [a, b].some(({ more }) => more) ? `Only the last ${bytes(OUTPUT_MAX)} of each are compared. ` : "";
    if (!a.text && !b.text) return h("p", { class: "muted" }, "Neither printed anything.");
    if (a.text === b.text) return h("p", { class: "muted" }, cut, "They printed the same.");
    const { shown, left } = lineDiff(a.text, b.text);
    return [
      cut || left ? h("p", { class: "muted" }, cut, left ? `They differ in more lines than the ${number(COMPARED_MAX)} shown.` : "") : null,
      h(
        "pre",
        { class: "code diff-lines", tabindex: "0" },
        shown.map(({ kind, text }) =>
          h("span", { class: `line line-${kind}` }, `${{ same: " ", added: "+", removed: "-", skipped: "⋯" }[kind]} ${text}\n`),
        ),
      ),
    ];
  }
}
define("rs-compare", ComparePage);

function took(run, ...both) {
  const [mine, other] = [run, both.find((one) => one !== run)].map((one) => tookOf(one));
  const factor = run === both[1] && mine > 0 && other > 0 ? mine / other : 1;
  const words = factor >= 1.5 ? `${factor.toFixed(1)} times as long` : factor <= 1 / 1.5 ? `${(1 / factor).toFixed(1)} times as fast` : "";
  return `${duration(mine)}${words && ` (${words})`}`;
}

async function outputOf({ id, attempts }, signal) {
  if (!attempts.some(({ output }) => output)) return { text: "", more: false };
  try {
    const query = { tail_bytes: OUTPUT_MAX };
    const { data } = await request("GET", `${runPath({ id })}/output`, { query, signal, parse: "text" });
    return { text: plain(data), more: (attempts.at(-1).output?.size ?? 0) > OUTPUT_MAX };
  } catch (error) {
    return error;
  }
}

/**
 * Returns the lines in which two texts differ, with a few around them: `{shown: [{kind, text}], left}`; `left`: there are
 * more than are compared.
 */
export function lineDiff(before, after) {
  const [a, b] = [before, after].map((text) => text.replace(/\n$/, "").split("\n"));
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middle = (all) => all.slice(head, all.length - tail);
  const left = [a, b].some((all) => middle(all).length > COMPARED_MAX);
  const [x, y] = [a, b].map((all) => middle(all).slice(0, COMPARED_MAX));
  const found = [
    ...a.slice(0, head).map((text) => ({ kind: "same", text })),
    ...(x.length && y.length ? lines(x.join("\n"), y.join("\n")) : [...x.map(as("removed")), ...y.map(as("added"))]),
    ...(left ? [] : a.slice(a.length - tail).map((text) => ({ kind: "same", text }))),
  ];
  const near = found.map((_, at) => found.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(({ kind }) => kind !== "same"));
  const shown = [];
  let skipped = 0;
  const close = () => {
    if (skipped) shown.push({ kind: "skipped", text: `${number(skipped)} lines are the same` });
    skipped = 0;
  };
  found.forEach((one, at) => {
    if (!near[at]) return void skipped++;
    close();
    shown.push(one);
  });
  close();
  return { shown, left };
}

function as(kind) {
  return (text) => ({ kind, text });
}
