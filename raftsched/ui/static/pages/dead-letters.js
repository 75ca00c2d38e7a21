/** Dead letters: what failed for good, by its causes, to be requeued or discarded. */

import { empty, heading, loading, problem, stateBadge, table, timeOf } from "../components/basics.js";
import { bindListKeys } from "../components/list-keys.js";
import { namespaceOf } from "../components/list-page.js";
import { savedFilters } from "../components/saved.js";
import { get, pages } from "../core/api.js";
import { onChange } from "../core/changes.js";
import { Page, define } from "../core/element.js";
import { tellingLine } from "../core/errors.js";
import { executorOf, number, plain, plural } from "../core/format.js";
import { bind } from "../core/keys.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { byCause } from "./causes.js";
import { confirmSweep } from "./sweeps.js";

const PATH = "/v1/dead-letters";
const LETTER_FIELDS = "id,job_id,job_name,namespace,state,scheduled_at,node,worker,attempt,exit_code,error,reason,dead_since";
const LETTERS_MAX = 10_000; // the newest, which are grouped here
const NEW_MAX = 50; // read at once to see what came
const GROUPS = 100; // shown at once
const SHOWN = 25; // letters of a cause
const LETTERS_APART_MS = 1_500; // between two looks at what changed

export class DeadLettersPage extends Page {
  #letters = new Map(); // by id, the newest first
  #groups = [];
  #more = false; // there are older ones
  #reading = null; // AbortController of the reading that goes on
  #error = null;
  #read = false; // all that is wanted was read once
  #open = new Map(); // key of a group -> letters shown
  #chosen = new Set(); // ids
  #most = GROUPS;
  #timer = 0;
  #touched = null; // ids that changed since; true: any

  connected() {
    this.signal.addEventListener(
      "abort",
      onChange((change) => this.#changed(change)),
    );
    this.on(document, "visibilitychange", () => this.#soon());
    this.on(session, "change", () => this.#load());
    bindListKeys(this, ".cause", this.signal);
    bind({ "/": ["filter", () => this.querySelector("input")?.focus()] }, this.signal);
    this.#load();
  }

  disconnected() {
    this.#reading?.abort();
    clearTimeout(this.#timer);
  }

  queryChanged() {
    this.#load();
  }

  get #filter() {
    const filter = { namespace: namespaceOf(this.query), name_prefix: this.query.get("name_prefix") };
    return Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
  }

  async #load() {
    this.#reading?.abort();
    const mine = (this.#reading = new AbortController());
    const { signal } = mine;
    const letters = new Map();
    this.#touched = null;
    this.#error = null;
    let more = false;
    try {
      for await (const items of pages(PATH, { ...this.#filter, fields: LETTER_FIELDS }, { limit: 1000, signal })) {
        for (const one of items) letters.set(one.id, one);
        if (!this.#read) this.#show(letters);
        more = letters.size >= LETTERS_MAX;
        if (more) break;
      }
      this.#more = more;
      this.#read = true;
      this.#show(letters);
    } catch (error) {
      if (signal.aborted) return;
      this.#error = error;
    }
    if (this.#reading === mine) this.#reading = null;
    this.update();
  }

  #show(letters) {
    this.#letters = letters;
    this.#groups = byCause(letters.values());
    for (const id of this.#chosen) if (!letters.has(id)) this.#chosen.delete(id);
    this.update();
  }

  // ------------------------------------------------------------ what changes

  #changed(change) {
    if (change && !change.kinds.has("runs")) return;
    if (!change || change.more) this.#touched = true;
    else if (this.#touched !== true) this.#touched = new Set([...(this.#touched ?? []), ...change.runs]);
    this.#soon();
  }

  #soon() {
    if (this.#timer || document.hidden || this.#touched === null) return;
    this.#timer = setTimeout(async () => {
      this.#timer = 0;
      if (this.isConnected && !this.#reading) await this.#look();
      this.#soon();
    }, LETTERS_APART_MS);
  }

  /** Reads the newest ones, and what became of those that changed. */
  async #look() {
    const touched = this.#touched;
    this.#touched = null;
    const signal = this.signal;
    try {
      const { items } = await get(PATH, { ...this.#filter, fields: LETTER_FIELDS, limit: NEW_MAX }, { signal });
      const known = items.findIndex(({ id, dead_since: since }) => this.#letters.get(id)?.dead_since === since);
      const mine =
        touched === true
          ? []
          : [...touched].filter((id) => this.#letters.has(id) && !items.some((one) => one.id === id));
      if (touched === true || (known < 0 && items.length >= NEW_MAX) || mine.length > NEW_MAX) {
        await this.#load();
        return;
      }
      const gone = await Promise.all(
        mine.map((id) =>
          get(`/v1/instances/${encodeURIComponent(id)}`, {}, { signal }).then(
            (one) => !one.dead_letter,
            () => true,
          ),
        ),
      );
      const letters = new Map(items.map((one) => [one.id, one]));
      for (const [id, one] of this.#letters) if (!letters.has(id) && !gone[mine.indexOf(id)]) letters.set(id, one);
      this.#show(letters);
    } catch {
      if (!signal.aborted) this.#touched = true; // it is looked at again with the next change
    }
  }

  // ------------------------------------------------------------ what is shown

  render() {
    const found = this.#groups.length;
    return [
      heading("Dead letters", {
        below: h("p", { class: "muted" }, "Runs that failed for good: all their retries are used up."),
      }),
      this.#filters(),
      savedFilters(this.query),
      problem(this.#error),
      this.#progress(),
      found ? this.#bar() : null,
      found
        ? h(
            "ul",
            { class: "causes" },
            this.#groups.slice(0, this.#most).map((group) => this.#cause(group)),
          )
        : this.#none(),
      found > this.#most
        ? h(
            "button",
            { type: "button", onclick: () => this.#set(() => (this.#most += GROUPS)) },
            `Show more causes (${number(found - this.#most)})`,
          )
        : null,
    ];
  }

  #set(change) {
    change();
    this.update();
  }

  #none() {
    if (this.#error) return null;
    if (!this.#read) return loading();
    if (Object.keys(this.#filter).length) return empty("No dead letter matches.", "Change the filter to see others.");
    return empty(
      "No dead letters.",
      "A run that fails is tried again as its job's retry says; when that is used up, it is kept here until you requeue or discard it.",
    );
  }

  #filters() {
    const field = (name, label, placeholder) =>
      h(
        "label",
        { class: "field" },
        label,
        h("input", {
          type: "search",
          value: this.#filter[name] ?? "",
          placeholder,
          onchange: (event) => {
            this.setQuery({ [name]: event.target.value.trim() });
            this.#read = false;
            this.#show(new Map());
            this.#load();
          },
        }),
      );
    return h(
      "search",
      { class: "row" },
      field("namespace", "Namespace", "all"),
      field("name_prefix", "Name of the job begins with", "any"),
    );
  }

  #progress() {
    const count = this.#letters.size;
    const words =
      this.#reading && !this.#read
        ? `Reading: ${number(count)} so far …`
        : count
          ? `${plural(count, "dead letter")}${this.#more ? ", the newest; there are more" : ""} of ${plural(this.#groups.length, "cause")}.`
          : "";
    return h(
      "div",
      { role: "status" },
      h("p", { class: "muted" }, words),
      this.#reading && !this.#read
        ? h("div", { class: "progress" }, h("div", { style: { width: `${(100 * count) / LETTERS_MAX}%` } }))
        : null,
    );
  }

  #buttons(target, which, namespace, disabled = false) {
    const act = (kind, text, operation, look) =>
      session.may(operation, namespace)
        ? h(
            "button",
            { type: "button", class: look, disabled, onclick: () => this.#sweep(kind, target(), which()) },
            text,
          )
        : null;
    return [
      act("requeue", "Requeue", "dead_letters_requeue", "small"),
      act("discard", "Discard", "dead_letters_discard", "small"),
    ];
  }

  async #sweep(kind, target, which) {
    if (!(await confirmSweep(kind, target, which))) return;
    this.#chosen.clear();
    await this.#load();
  }

  /** Returns the actions on what is chosen, or on all that match. */
  #bar() {
    const count = this.#chosen.size;
    const { namespace, name_prefix: prefix } = this.#filter;
    const which = [
      namespace && `of the namespace ${namespace}`,
      prefix && `of jobs whose names begin with "${prefix}"`,
    ].filter(Boolean);
    return h(
      "div",
      { class: "row" },
      h("strong", null, count ? `${number(count)} chosen:` : "All that match the filter:"),
      count
        ? this.#buttons(
            () => [...this.#chosen],
            () => "that you chose",
            undefined,
          )
        : this.#buttons(
            () => this.#filter,
            () => which.join(", ") || "of the whole cluster",
            namespace,
          ),
      count
        ? h(
            "button",
            { type: "button", class: "quiet small", onclick: () => this.#set(() => this.#chosen.clear()) },
            "Choose none",
          )
        : null,
    );
  }

  #cause(group) {
    const { sample, letters, key } = group;
    const chosen = letters.filter((one) => this.#chosen.has(one.id)).length;
    const name = sample.job_name ?? sample.job_id;
    const shown = this.#open.get(key);
    const words = tellingLine(sample.error) || sample.reason?.replaceAll("_", " ") || "no error was told";
    return h(
      "li",
      { class: "cause card", key },
      h("input", {
        type: "checkbox",
        checked: chosen === letters.length,
        indeterminate: chosen > 0 && chosen < letters.length,
        "aria-label": `Choose all of this cause: ${words}`,
        onchange: (event) => this.#choose(letters, event.target.checked),
      }),
      h("span", { class: "cause-count number" }, number(letters.length)),
      h(
        "div",
        { class: "cause-what" },
        h("p", { class: "mono cause-error" }, words),
        h(
          "p",
          { class: "muted" },
          stateBadge(sample.state),
          " ",
          h("a", { href: `/ui/jobs/${sample.job_id}` }, `${sample.namespace}/${name}`),
          sample.exit_code === null ? "" : ` · exit code ${sample.exit_code}`,
          sample.reason ? ` · ${sample.reason.replaceAll("_", " ")}` : "",
          " · last ",
          h("a", { href: `/ui/runs/${encodeURIComponent(sample.id)}` }, timeOf(group.last)),
          letters.length > 1 ? [" · first ", timeOf(group.first)] : null,
        ),
      ),
      h(
        "div",
        { class: "actions" },
        h(
          "button",
          {
            type: "button",
            class: "small",
            "aria-expanded": String(Boolean(shown)),
            onclick: () => this.#set(() => (shown ? this.#open.delete(key) : this.#open.set(key, SHOWN))),
          },
          shown ? "Hide" : "Show",
        ),
        this.#buttons(
          () => letters.map((one) => one.id),
          () => "of this cause",
          sample.namespace,
        ),
      ),
      shown ? this.#runs(group, shown) : null,
    );
  }

  #runs({ letters, key, sample }, shown) {
    const columns = [
      {
        title: h("span", { class: "sr" }, "Choose"),
        cell: (one) =>
          h("input", {
            type: "checkbox",
            checked: this.#chosen.has(one.id),
            "aria-label": `Choose ${one.id}`,
            onchange: (event) => this.#choose([one], event.target.checked),
          }),
      },
      {
        title: "Run",
        cell: (one) => h("a", { href: `/ui/runs/${encodeURIComponent(one.id)}`, class: "mono" }, one.id),
      },
      { title: "Scheduled", cell: (one) => timeOf(one.scheduled_at) },
      { title: "Dead since", cell: (one) => timeOf(one.dead_since) },
      { title: "Attempts", number: true, cell: (one) => number(one.attempt) },
      { title: "Node", cell: (one) => executorOf(one) },
    ];
    return h(
      "div",
      { class: "cause-runs" },
      sample.error ? h("pre", { class: "cause-error" }, plain(sample.error)) : null,
      table(columns, letters.slice(0, shown), { key: (one) => one.id, caption: "Runs of this cause" }),
      letters.length > shown
        ? h(
            "button",
            { type: "button", class: "small", onclick: () => this.#set(() => this.#open.set(key, shown + 4 * SHOWN)) },
            `Show more (${number(letters.length - shown)})`,
          )
        : null,
    );
  }

  #choose(letters, on) {
    for (const { id } of letters) {
      if (on) this.#chosen.add(id);
      else this.#chosen.delete(id);
    }
    this.update();
  }
}

define("rs-dead-letters", DeadLettersPage);
