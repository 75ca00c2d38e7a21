/** A run: what it is, why it ran then and there, its attempts, and its output as it comes. */

import { card, copyButton, facts, heading, shown, stateBadge, table, timeOf } from "../components/basics.js";
import { attempt, confirmDialog, toast } from "../components/dialog.js";
import "../components/output/output.js";
import { del, get, post } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { tellingLine } from "../core/errors.js";
import { bytes, duration, executorOf, localTimes, moment, number, plain, plural, tookOf } from "../core/format.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { END_STATE_NAME } from "../core/words.js";
import { runNow } from "./job/actions.js";
import { bars, lateness, runLength } from "./run-times.js";
import { compareLinks } from "./compare.js";
import { workflowCard } from "./run-workflow.js";
import { workflowOf, workflowPath } from "./workflow-parts.js";

const RUN_LOOK_MS = 2_000; // while it waits, what is in its way may change without it
const FINAL = new Set(END_STATE_NAME);
const BEGUN = new Set(["LAUNCHED", "RUNNING"]);

export class RunPage extends Page {
  #attempt = null; // the one that is chosen; null: the newest

  connected() {
    const timer = setInterval(() => {
      const { data } = this.#run;
      if (!data || FINAL.has(data.state)) return;
      this.#why.touch();
      if (BEGUN.has(data.state)) this.#run.touch(); // how far it is
      if (BEGUN.has(data.state)) this.update(); // its length grows
    }, RUN_LOOK_MS);
    this.signal.addEventListener("abort", () => clearInterval(timer));
    const asked = Number(this.query.get("attempt"));
    if (asked) this.#attempt = asked;
  }

  get #path() {
    return `/v1/instances/${encodeURIComponent(this.params.id)}`;
  }

  get #run() {
    return this.watch(this.#path, { on: [`run:${this.params.id}`] });
  }

  get #why() {
    return this.watch(`${this.#path}/explain`, { on: [`run:${this.params.id}`] });
  }

  render() {
    const run = this.#run;
    const why = this.#why;
    if (!run.data) return [heading("Run"), ...[shown(run, () => null)].flat()];
    const one = run.data;
    const begun = one.attempts.length > 0;
    const reasons = card("Why", h("div", { class: "why" }, this.#story(why)));
    return [
      this.#head(one),
      shown(run, () => null),
      this.#progress(one),
      h(
        "div",
        { class: begun ? "run-main" : "stack" },
        h("div", { class: "stack", key: "first" }, failure(one), begun ? this.#output(one) : reasons),
        begun ? reasons : null,
      ),
      begun ? card("Attempts", this.#attempts(one)) : null,
      this.#values(one),
      workflowCard(this, workflowOf(this, one), one.id),
      card("Details", this.#facts(one, why.data)),
      why.data ? card("Step by step", this.#steps(why.data)) : null,
    ];
  }

  /** How far it is, by its own word. */
  #progress(one) {
    const said = one.progress;
    if (!said) return null;
    const words = [said.percent === null ? null : `${said.percent} %`, said.text || null].filter(Boolean).join(" · ");
    return h(
      "section",
      { class: "card run-progress", "aria-label": "Progress" },
      said.percent === null
        ? null
        : h("progress", { max: "100", value: String(said.percent), "aria-label": "Done, in percent" }),
      h("p", null, words, h("span", { class: "muted" }, " ", timeOf(said.at))),
    );
  }

  #head(one) {
    const name = one.job_name ?? one.job_id;
    document.title = `Run of ${name} · raftsched`;
    return heading([stateBadge(one.state), ` Run of ${name}`], {
      above: [
        h("a", { href: `/ui/jobs/${one.job_id}` }, one.namespace ? `${one.namespace}/${name}` : name),
        " · ",
        h("code", null, one.id),
        " ",
        copyButton(one.id, "Copy the id"),
        compareLinks(one),
      ],
      below: h("p", { class: "run-when" }, inShort(one)),
      actions: this.#actions(one),
    });
  }

  #actions(one) {
    const may = (operation) => session.may(operation, one.namespace ?? undefined);
    const act = (text, dialog, danger) =>
      h(
        "button",
        {
          type: "button",
          key: text,
          class: danger ? "danger" : "",
          onclick: () => confirmDialog({ action: text, danger, ...dialog }),
        },
        text,
      );
    const made = [];
    if (BEGUN.has(one.state) && may("instances_kill")) {
      const body = one.kill_asked
        ? "It was asked to end before. It is asked again."
        : "It is asked to end, and killed when it does not. It counts as killed, and is not retried.";
      made.push(act("Kill", { title: "Kill this run?", body, run: () => post(`${this.#path}/kill`) }, true));
    } else if (!FINAL.has(one.state) && may("instances_cancel")) {
      const body = "It has not started, and will not: it counts as killed.";
      made.push(
        act("Cancel", { title: "Cancel this run?", body, action: "Cancel the run", run: () => del(this.#path) }, true),
      );
    }
    if (one.dead_letter && may("dead_letters_requeue")) {
      const run = () => this.#done(post("/v1/dead-letters/requeue", { ids: [one.id] }));
      made.push(act("Requeue", { title: "Requeue this dead letter?", body: "It runs again, with its retries.", run }));
    }
    if (one.dead_letter && may("dead_letters_discard")) {
      const run = () => this.#done(del("/v1/dead-letters", { query: { ids: one.id } }));
      const body =
        "It is taken off the dead letters and will not run again. The run itself stays readable until its retention is over.";
      made.push(act("Discard", { title: "Discard this dead letter?", body, run }, true));
    }
    if (FINAL.has(one.state) && one.attempts.length && !one.dead_letter && may("instances_rerun")) {
      made.push(
        act("Rerun", {
          title: "Rerun this run?",
          body: "It gets one more attempt, with the same parameters.",
          run: () => post(`${this.#path}/rerun`),
        }),
      );
    }
    if (FINAL.has(one.state) && one.root && may("instances_rerun")) {
      made.push(
        act("Rerun downstream", {
          title: "Rerun this run, and all that follow it?",
          body: "Each run behind it in its workflow runs again, after those that it waits for.",
          run: () => post(`${this.#path}/rerun`, { downstream: true }),
        }),
      );
    }
    if (FINAL.has(one.state) && one.job_name && may("actions_run")) {
      const words = "Run with other parameters";
      made.push(h("button", { type: "button", key: words, onclick: () => this.#runOther(one) }, `${words} …`));
    }
    if (one.root === one.id && may("workflows_kill") && workflowOf(this, one).data?.state === "running") {
      const body = "All of its runs that are active are asked to end, and nothing more of it starts.";
      const run = () => post(`${workflowPath(one)}/kill`);
      made.push(act("Kill the workflow", { title: "Kill the workflow?", body, run }, true));
    }
    return made.length ? made : null;
  }

  /** Asks for the parameters of another run of the job, and shows that run. */
  #runOther({ job_id: id, params }) {
    const show = (made) => navigate(`/ui/runs/${encodeURIComponent(made.id)}`);
    attempt(async () => runNow(await get(`/v1/jobs/${id}`), show, params ?? undefined));
  }

  /** Waits for an answer, and throws what it refused. */
  async #done(asked) {
    const { refused } = await asked;
    if (refused.length)
      throw Object.assign(new Error(refused[0].detail), { title: "Refused", detail: refused[0].detail });
    toast("Done");
  }

  #facts(one, why) {
    const then = why?.why_then;
    return facts([
      ["Due", timeOf(one.scheduled_at)],
      ["Trigger", one.trigger ? h("code", null, one.trigger) : null],
      ["Started", one.started_at ? timeOf(one.started_at) : null],
      ["Late", lateness(one, then)],
      ["Ended", one.ended_at ? timeOf(one.ended_at) : null],
      ["Took", one.started_at ? duration(runLength(one, Date.now())) : null],
      ["Exit code", one.exit_code],
      ["Reason", one.reason?.replaceAll("_", " ")],
      [one.worker ? "Worker" : "Node", one.node ?? one.worker],
      ["Fencing token", one.token === null ? null : h("code", null, one.token)],
      ["Attempt", one.attempt || null],
      ["Priority", one.priority],
      ["Key", one.key],
      ["Revision of the job", one.job_revision],
      ["Postponed by itself", one.snoozes ? plural(one.snoozes, "time") : null],
      ["Expires", one.expires_at ? timeOf(one.expires_at) : null],
      ["Started by", one.cause ? runOf(one.cause) : null],
      ["First of its workflow", one.root && one.root !== one.cause && one.root !== one.id ? runOf(one.root) : null],
      ["Due times skipped with it", one.skipped ? plural(one.skipped, "time") : null],
      ["Asked to end", one.kill_asked && !FINAL.has(one.state) ? "yes" : null],
    ]);
  }

  // ------------------------------------------------------------ why

  #story(why) {
    return shown(
      why,
      ({
        why_then: then,
        why_there: there,
        waits,
        waiting_for: obstacle,
        gap,
        outputs,
        text,
      }) => [
        h("p", null, localTimes(obstacle ? text.replace(obstacle.text, "") : text)),
        obstacle ? h("p", { class: "warning", role: "status" }, h("strong", null, "Waits now. "), obstacle.text) : null,
        gap && gap.text !== then.text ? h("p", null, localTimes(gap.text)) : null,
        there.map((one) =>
          h("p", { key: `there ${one.attempt}` }, there.length > 1 ? `Attempt ${one.attempt}: ` : "", one.text),
        ),
        outputs.map((one) => h("p", { key: `output ${one.attempt}` }, `Output of attempt ${one.attempt}: `, localTimes(one.text))),
        waits.length
          ? h(
              "ul",
              null,
              together(waits).map(([words, ms]) => h("li", { key: words }, words.replace("…", duration(ms)))),
            )
          : null,
      ],
    );
  }

  #steps({ steps, steps_left_out: cut, waiting_for: obstacle }) {
    const left = h("span", null, "Steps between these were left out; the cluster keeps steps_kept of them.");
    return h(
      "ol",
      { class: "story" },
      steps.flatMap((step, at) => [
        this.#step(step, steps[at - 1]),
        cut && at === 0 ? h("li", { key: "cut", class: "muted" }, left) : null,
      ]),
      obstacle ? h("li", { key: "now", class: "is-now" }, h("span", null, `Now: ${obstacle.text}`)) : null,
    );
  }

  #step(step, before) {
    const [at, last] = [moment(step.at), before && moment(before.at)];
    const good = step.text.includes("SUCCEEDED");
    const mark = {
      final: good ? "is-good" : "is-bad",
      ended: "is-bad",
      lost: "is-bad",
      kill_asked: "is-bad",
      started: "is-going",
    }[step.kind];
    return h(
      "li",
      { key: `${step.index} ${step.kind} ${step.attempt}`, class: mark },
      h(
        "div",
        null,
        h("p", null, step.text),
        h(
          "p",
          { class: "muted" },
          timeOf(step.at, { relative: false }),
          before ? ` · ${duration(Math.max(0, at - last))} later` : "",
          ` · entry ${number(step.index)}, term ${step.term}`,
          step.token ? ` · token ${step.token}` : "",
        ),
      ),
    );
  }

  // ------------------------------------------------------------ attempts and output

  #attempts(one) {
    const columns = [
      { title: "#", number: true, cell: (row) => row.number },
      {
        title: "Outcome",
        cell: (row) => (row.outcome ? stateBadge(row.outcome.toUpperCase()) : stateBadge(one.state)),
      },
      { title: "Node", cell: executorOf },
      { title: "Started", cell: (row) => timeOf(row.started_at, { relative: false }), class: "nowrap" },
      {
        title: "Took",
        number: true,
        cell: (row) => duration(tookOf(row)),
      },
      { title: "Exit", number: true, cell: (row) => row.exit_code ?? "–" },
      one.attempts.some((row) => row.error) && {
        title: "Error",
        cell: (row) => tellingLine(row.error),
        class: "run-note",
      },
      { title: "Output", number: true, cell: (row) => (row.output ? bytes(row.output.size) : "–") },
    ];
    return [bars(one, Date.now()), table(columns.filter(Boolean), one.attempts, { key: (row) => row.number, caption: "Attempts" })];
  }

  #output(one) {
    const { attempts } = one;
    const choose = (event) => {
      this.#attempt = event.target.value ? Number(event.target.value) : null;
      this.setQuery({ attempt: this.#attempt });
    };
    const chooser =
      attempts.length > 1
        ? h(
            "label",
            { class: "row" },
            "Attempt",
            h(
              "select",
              { value: this.#attempt ?? "", onchange: choose },
              h("option", { value: "" }, `newest (${attempts.at(-1).number})`),
              attempts.map((each) =>
                h("option", { value: each.number, key: each.number }, `${each.number}: ${each.outcome ?? "runs"}`),
              ),
            ),
          )
        : null;
    return card(
      "Output",
      h("rs-output", {
        ".run": one.id,
        ".attempt": this.#attempt,
        ".newest": attempts.at(-1)?.number ?? 0,
        ".over": FINAL.has(one.state),
        ".name": (one.job_name ?? one.job_id).replace(/[^\w.-]/g, "_"),
        ref: (element) => (this.#view = element),
      }),
      { actions: chooser },
    );
  }

  #view = null;

  update() {
    super.update();
    this.#view?.update();
  }

  #values(one) {
    const shownAs = (title, value) =>
      value === null || value === undefined
        ? null
        : card(title, h("pre", { class: "cause-error" }, JSON.stringify(value, null, 2)), {
            actions: copyButton(JSON.stringify(value, null, 2)),
          });
    const made = [
      shownAs("Result", one.result),
      shownAs("Kept for its next attempts", one.saved_state),
      shownAs("Parameters", one.params),
      shownAs("Results passed to it", one.passed),
      shownAs("Event", one.event),
    ];
    return made.some(Boolean) ? h("div", { class: "two" }, made) : null;
  }
}

/** Returns when a run began, how long it took and where, in a line. */
function inShort(one) {
  const { started_at: started, ended_at: ended, exit_code: code } = one;
  const length = started ? duration(runLength(one, Date.now())) : null;
  return [
    started ? ["started ", timeOf(started)] : ["due ", timeOf(one.scheduled_at)],
    started ? ` · ${ended ? "took" : "runs for"} ${length}` : ended ? " · never started" : null,
    started ? ` · on ${executorOf(one)}` : null,
    one.attempts.length > 1 ? ` · ${plural(one.attempts.length, "attempt")}` : null,
    code ? ` · exit code ${code}` : null,
  ];
}

/** Returns what went wrong, what is telling first; null where nothing did, or a later attempt went well. */
function failure(one) {
  const error = one.attempts.findLast((row) => row.error)?.error ?? one.error;
  if (!error || one.state === "SUCCEEDED" || one.state === "SKIPPED") return null;
  const [told, whole] = [tellingLine(error), plain(error).trim()];
  return card("Error", [
    h("pre", { class: "run-error", tabindex: "0" }, told),
    whole.includes("\n") && whole.length > told.length
      ? h("details", { class: "rest" }, h("summary", null, "The whole error"), h("pre", { class: "code", tabindex: "0" }, whole))
      : null,
  ]);
}

/** Returns a link to another run. */
function runOf(id) {
  return h("a", { href: `/ui/runs/${encodeURIComponent(id)}` }, h("code", null, id));
}

/** Returns [[words, ms], ...]: waits for the same thing as one. */
function together(waits) {
  const found = new Map();
  for (const { to, text, ms } of waits) {
    const words = to ? `Waited … ${text}.` : "Has waited … up to now.";
    found.set(words, (found.get(words) ?? 0) + ms);
  }
  return [...found];
}

define("rs-run", RunPage);
