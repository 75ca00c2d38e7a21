/** The page that makes jobs of a pasted crontab: what each line becomes, chosen and created. */

import { card, empty, heading, problem } from "../components/basics.js";
import { homeNamespace } from "../components/list-page.js";
import { post } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { plural, viewerZone } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { Batch, resultOf } from "./editor/batch.js";
import { keepDraft, readDraft } from "./editor/drafts.js";
import { zoneList } from "./editor/times.js";

const CRONTAB_PAUSE_MS = 400;
const ADDRESS = "/ui/crontab";
const EXAMPLE = "0 2 * * 1-5 /usr/local/bin/backup --all";

export class CrontabPage extends Page {
  #given = { text: "", timezone: viewerZone(), namespace: "", prefix: "", file: "crontab", user_column: "" };
  #report = null;
  #error = null;
  #left = new Set(); // lines that are not to be created
  #batch = new Batch();
  #sent = []; // the lines that were created, in the order of the results
  #due = false; // it was changed since it was converted
  #timer = 0;
  #asking = null;

  connected() {
    Object.assign(this.#given, { namespace: homeNamespace() ?? "" }, readDraft(ADDRESS));
    this.on(session, "change", () => this.update());
    if (this.#given.text) this.#ask();
  }

  disconnected() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  #set(name, value) {
    this.#given[name] = value;
    this.#due = true;
    keepDraft(ADDRESS, this.#given.text ? this.#given : null);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), CRONTAB_PAUSE_MS);
    this.update();
  }

  async #ask() {
    this.#asking?.abort();
    const mine = (this.#asking = new AbortController());
    const { namespace, user_column: column, ...rest } = this.#given;
    const body = { ...rest, namespace: namespace || null, user_column: column === "" ? null : column === "yes" };
    let [report, error] = [null, null];
    if (body.text.trim()) {
      try {
        report = await post("/v1/schedules/crontab", body, { signal: mine.signal });
      } catch (failure) {
        error = failure;
      }
    }
    if (mine.signal.aborted) return;
    this.#due = false;
    [this.#report, this.#error, this.#sent, this.#batch] = [report, error, [], new Batch()];
    this.update();
  }

  render() {
    const lines = this.#report?.lines ?? [];
    return [
      heading("From a crontab"),
      session.may("crontabs_convert") ? null : h("p", { class: "warning" }, "Your token may not create jobs."),
      card("Crontab", this.#form()),
      this.#error ? problem(this.#error) : null,
      this.#report ? this.#shown(lines) : null,
      zoneList(),
    ];
  }

  #form() {
    const { text, user_column: column } = this.#given;
    const input = (name, title, more) =>
      h(
        "div",
        { class: "field" },
        h("label", { for: name }, title),
        h("input", {
          id: name,
          value: this.#given[name],
          autocomplete: "off",
          spellcheck: "false",
          ...more,
          oninput: (event) => this.#set(name, event.target.value),
        }),
      );
    return [
      h(
        "label",
        { for: "text" },
        "Paste what ",
        h("code", null, "crontab -l"),
        " or ",
        h("code", null, "/etc/crontab"),
        " shows; nothing is stored yet.",
      ),
      h("textarea", {
        id: "text",
        rows: Math.min(20, Math.max(6, text.split("\n").length + 1)),
        value: text,
        spellcheck: "false",
        wrap: "off",
        placeholder: EXAMPLE,
        oninput: (event) => this.#set("text", event.target.value),
      }),
      h(
        "div",
        { class: "fields" },
        input("namespace", "Namespace", { placeholder: "default" }),
        input("timezone", "Time zone where it says none", { list: "zones" }),
        h(
          "div",
          { class: "field" },
          h("label", { for: "column" }, "User before each command"),
          h(
            "select",
            { id: "column", value: column, onchange: (event) => this.#set("user_column", event.target.value) },
            [
              ["", "as it seems"],
              ["yes", "yes: /etc/crontab"],
              ["no", "no: crontab -l"],
            ].map(([value, title]) => h("option", { value, key: value }, title)),
          ),
        ),
        input("prefix", "Before each job's name", { placeholder: "web1-" }),
        input("file", "Name of the crontab"),
      ),
    ];
  }

  #shown(lines) {
    const jobs = lines.filter((line) => line.result === "job");
    const refused = lines.filter((line) => line.result === "refused").length;
    if (!lines.length) return empty("No line of it is a job.", "A line such as this is one:", h("code", null, EXAMPLE));
    const chosen = jobs.filter((line) => !this.#left.has(line.line));
    const all = chosen.length === jobs.length;
    const flipAll = () => {
      this.#left = new Set(all ? jobs.map((line) => line.line) : []);
      this.update();
    };
    const words = [
      plural(jobs.length, "job"),
      `${refused} refused`,
      `read ${this.#report.user_column ? "with" : "without"} a user column`,
    ];
    return card("Line by line", [
      h("p", { class: "muted", role: "status" }, words.join(" · ")),
      h(
        "div",
        { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Lines of the crontab" },
        h(
          "table",
          { class: "crontab" },
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              h(
                "th",
                { scope: "col" },
                h("input", {
                  type: "checkbox",
                  checked: all,
                  disabled: !jobs.length,
                  "aria-label": "All lines",
                  onchange: flipAll,
                }),
              ),
              ["Line", "What it says", "What it becomes"].map((title) => h("th", { scope: "col", key: title }, title)),
            ),
          ),
          h(
            "tbody",
            null,
            lines.map((line) => this.#line(line)),
          ),
        ),
      ),
      h(
        "div",
        { class: "editor-save" },
        h(
          "button",
          {
            type: "button",
            class: "primary",
            disabled: !chosen.length || this.#batch.busy || this.#due,
            onclick: () => this.#create(chosen),
          },
          `Create ${plural(chosen.length, "job")}`,
        ),
        this.#batch.summary(),
      ),
    ]);
  }

  #line({ line, text, result, job, description, reason, notes }) {
    const at = this.#sent.indexOf(line);
    const flip = (event) => {
      if (event.target.checked) this.#left.delete(line);
      else this.#left.add(line);
      this.update();
    };
    const becomes = {
      job: () => [h("p", null, description), h("p", { class: "muted" }, h("code", null, job.name))],
      setting: () => h("p", { class: "muted" }, "holds for the lines below it"),
      refused: () => h("p", { class: "bad" }, `✕ ${reason}`),
    };
    return h(
      "tr",
      { key: line },
      h(
        "td",
        null,
        job
          ? h("input", {
              type: "checkbox",
              checked: !this.#left.has(line),
              "aria-label": `Create line ${line}`,
              onchange: flip,
            })
          : null,
      ),
      h("td", { class: "number" }, line),
      h("td", null, h("code", null, text)),
      h(
        "td",
        null,
        becomes[result]?.(),
        notes.map((note) => h("p", { class: "warning small-note", key: note }, note)),
        at >= 0 && this.#batch.items ? resultOf(this.#batch.items[at]) : null,
      ),
    );
  }

  async #create(lines) {
    this.#sent = lines.map((line) => line.line);
    await this.#batch.send(
      lines.map((line) => line.job),
      () => this.update(),
    );
    if (this.#batch.items && !this.#batch.counts.refused) keepDraft(ADDRESS, null);
  }
}
define("rs-crontab-page", CrontabPage);
