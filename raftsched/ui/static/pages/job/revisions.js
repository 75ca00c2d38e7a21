/** The revisions of a job, and what differs between two of them. */

import { card, empty, shown, table, timeOf } from "../../components/basics.js";
import { View, define } from "../../core/element.js";
import { plural } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { diff, lines } from "./diff.js";
import { jobPath } from "./paths.js";

const CHANGE_MARKS = { added: "+", removed: "−", changed: "±", same: " " };

class JobRevisions extends View {
  #job = null;
  #page = null;
  #pair = "";

  set job(job) {
    this.#job = job;
    this.update();
  }

  set page(page) {
    this.#page = page;
  }

  /** The revisions that are compared, "2..3"; "": the last change. */
  set pair(pair) {
    this.#pair = pair;
    this.update();
  }

  render() {
    const { id } = this.#job;
    return shown(this.watch(`${jobPath(this.#job)}/revisions`, { on: [`job:${id}`] }), ({ items }) =>
      this.#body(items),
    );
  }

  #body(items) {
    const [from, to] = this.#chosen(items);
    return h(
      "div",
      { class: "stack" },
      card(plural(items.length, "revision"), this.#table(items, from, to)),
      items.length > 1
        ? card(`From revision ${from.revision} to ${to.revision}`, changes(shownAs(from), shownAs(to)))
        : card("Changes", empty("It was never edited.", "After an edit this shows what changed, field by field.")),
    );
  }

  #chosen(items) {
    const [from, to] = this.#pair.split("..").map((number) => items.find((one) => one.revision === Number(number)));
    return from && to ? [from, to] : [items[1] ?? items[0], items[0]];
  }

  #table(items, from, to) {
    const choose = (low, high) => this.#page.setQuery({ compare: `${low.revision}..${high.revision}` });
    const radio = (name, one, checked, choice) =>
      h("input", {
        type: "radio",
        name,
        checked,
        disabled: items.length < 2,
        "aria-label": `${name} revision ${one.revision}`,
        onchange: choice,
      });
    const columns = [
      { title: "From", class: "nowrap", cell: (one) => radio("from", one, one === from, () => choose(one, to)) },
      { title: "To", class: "nowrap", cell: (one) => radio("to", one, one === to, () => choose(from, one)) },
      { title: "Revision", number: true, cell: (one) => one.revision },
      { title: "Since", class: "nowrap", cell: (one) => timeOf(one.from, { relative: false }) },
      { title: "", class: "nowrap muted", cell: (one) => timeOf(one.from) },
      { title: "By", cell: (one) => one.by ?? h("span", { class: "muted" }, "–") },
      { title: "What it changed", cell: (one) => summary(one, items[items.indexOf(one) + 1]) },
    ];
    return table(columns, items, { key: (one) => one.revision, caption: "Revisions" });
  }
}
define("rs-job-revisions", JobRevisions);

function shownAs({ name, content }) {
  return { name, ...content };
}

function summary(one, before) {
  if (!before) return h("span", { class: "muted" }, one.revision === 1 ? "created" : "the ones before are not kept");
  const fields = new Set(diff(shownAs(before), shownAs(one)).map(({ path }) => path.split(/[.[]/)[0]));
  return fields.size ? [...fields].join(", ") : h("span", { class: "muted" }, "nothing");
}

function changes(before, after) {
  const found = diff(before, after);
  if (!found.length) return h("p", { class: "muted" }, "They say the same.");
  return h(
    "ul",
    { class: "diff" },
    found.map((change) =>
      h(
        "li",
        { key: change.path, class: `diff-${change.kind}` },
        h(
          "p",
          null,
          h("span", { class: "diff-mark", "aria-hidden": "true" }, CHANGE_MARKS[change.kind]),
          " ",
          h("code", null, change.path),
          h("span", { class: "muted" }, ` ${change.kind}`),
        ),
        values(change),
      ),
    ),
  );
}

function values({ before, after }) {
  if (typeof before === "string" && typeof after === "string" && (before.includes("\n") || after.includes("\n"))) {
    return h(
      "pre",
      { class: "code", tabindex: "0" },
      lines(before, after).map(({ kind, text }) =>
        h("span", { class: `line line-${kind}` }, `${CHANGE_MARKS[kind]} ${text}\n`),
      ),
    );
  }
  return h(
    "div",
    null,
    before === undefined
      ? null
      : h("pre", { class: "line-removed" }, h("span", { class: "sr" }, "before: "), `− ${asText(before)}`),
    after === undefined
      ? null
      : h("pre", { class: "line-added" }, h("span", { class: "sr" }, "after: "), `+ ${asText(after)}`),
  );
}

function asText(value) {
  return JSON.stringify(value, null, 2);
}

/** Returns the revisions of a job. */
export function jobRevisions(job, page) {
  return h("rs-job-revisions", { ".job": job, ".page": page, ".pair": page.query.get("compare") ?? "" });
}
