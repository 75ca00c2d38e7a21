/** The audit: who asked for what, the chain that shows that nothing is missing, and what was refused. */

import { card, copyButton, empty, facts, heading, problem, shown, table, timeOf } from "../components/basics.js";
import { bindListKeys } from "../components/list-keys.js";
import { tabs } from "../components/tabs.js";
import { get } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { FILTERS, filterQuery, fromLocal, linkOf, merge, toLocal } from "./audit-rows.js";

const LIMIT = 100;
const AUDIT_TYPED_MS = 300; // after the last key, until what was typed is asked for

export class AuditPage extends Page {
  #older = []; // behind the first page, which is live
  #first = null;
  #next = undefined; // the cursor behind `older`; undefined: as the first page has it
  #path = "";
  #error = null;
  #busy = false;
  #timer = 0;
  #seen = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && this.#more(), {
    rootMargin: "600px",
  });

  connected() {
    this.on(session, "change", () => this.update());
    bindListKeys(this, "tbody tr", this.signal);
  }

  disconnected() {
    clearTimeout(this.#timer);
    this.#seen.disconnect();
  }

  queryChanged() {
    for (const [name, , kind] of FILTERS) {
      const input = this.querySelector(`#audit-${name}`);
      const given = this.query.get(name) ?? "";
      if (input) input.value = kind === "datetime-local" ? toLocal(given) : given;
    }
    this.update();
  }

  render() {
    const parts = [
      ["records", "Records", () => this.#records()],
      ["chain", "Chain", () => this.#chain()],
      ["refusals", "Refusals", () => this.#refusals()],
    ];
    if (!session.may("audit_list_all"))
      return [heading("Audit"), empty("Only operators and admins see the audit.", "Ask one of them.")];
    return [
      heading("Audit"),
      tabs(parts, this.query.get("tab") ?? "records", (tab) => this.setQuery({ tab: tab === "records" ? null : tab })),
    ];
  }

  #records() {
    const query = filterQuery(this.query);
    const path = `/v1/audit?${new URLSearchParams({ ...query, limit: LIMIT })}`;
    if (path !== this.#path) this.#begin(path);
    const resource = this.watch(path, { on: ["audit"] });
    if (resource.data && resource.data !== this.#first) this.#take(resource.data);
    const rows = merge(this.#first?.items ?? [], this.#older);
    const next = this.#next === undefined ? this.#first?.next : this.#next;
    return [
      this.#filters(),
      resource.data === undefined
        ? shown(resource, () => null)
        : rows.length || next
          ? table(AUDIT_COLUMNS, rows, { key: keyOf, caption: "Records" })
          : empty(
              "There are no such records.",
              Object.keys(query).length ? "Widen the filters." : "Each request that changes something is noted here.",
            ),
      problem(this.#error ?? (resource.data ? resource.error : null)),
      next
        ? h("p", { class: "muted more", key: "more", ref: (end) => this.#seen.observe(end) }, "Older ones follow …")
        : null,
      rows.length && !next ? h("p", { class: "muted" }, `${plural(rows.length, "record")}; there are no more.`) : null,
    ];
  }

  #begin(path) {
    this.#path = path;
    this.#older = [];
    this.#first = null;
    this.#next = undefined;
    this.#error = null;
  }

  /** Takes a newer first page: what falls out of it stays, unless there is a gap between. */
  #take(data) {
    if (this.#first) {
      const known = new Set(data.items.map(keyOf));
      if (this.#first.items.some((row) => known.has(keyOf(row)))) {
        if (this.#next === undefined) this.#next = this.#first.next;
        this.#older = merge(this.#first.items, this.#older);
      } else if (data.items.length) {
        this.#older = [];
        this.#next = undefined;
      }
    }
    this.#first = data;
  }

  async #more() {
    const path = this.#path;
    const cursor = this.#next === undefined ? this.#first?.next : this.#next;
    if (!cursor || this.#busy) return;
    this.#busy = true;
    try {
      const page = await get(
        "/v1/audit",
        { ...filterQuery(this.query), limit: LIMIT, cursor },
        { signal: this.signal },
      );
      if (path === this.#path) {
        this.#older = merge(this.#older, page.items);
        this.#next = page.next;
        this.#error = null;
      }
    } catch (error) {
      if (path === this.#path && !this.signal.aborted) this.#error = error;
    }
    this.#busy = false;
    this.update();
    if (!this.#error) requestAnimationFrame(() => this.#again());
  }

  /** Looks again whether the end of the list is on the screen: a page may have had nothing of what is wanted. */
  #again() {
    const end = this.querySelector(".more");
    if (!end || this.signal.aborted) return;
    this.#seen.unobserve(end);
    this.#seen.observe(end);
  }

  #filters() {
    const change = (name, value) => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.setQuery({ [name]: value }), AUDIT_TYPED_MS);
    };
    return h(
      "form",
      { class: "filters", role: "search", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
      FILTERS.map(([name, label, kind]) => {
        const id = `audit-${name}`;
        const given = this.query.get(name) ?? "";
        const control = Array.isArray(kind)
          ? h(
              "select",
              { id, value: given, onchange: (event) => change(name, event.target.value) },
              kind.map(([value, text]) => h("option", { value }, text)),
            )
          : h("input", {
              id,
              type: kind,
              size: 12,
              autocomplete: "off",
              step: kind === "datetime-local" ? 1 : null,
              ref: (input) => (input.value = kind === "datetime-local" ? toLocal(given) : given),
              oninput: (event) =>
                change(name, kind === "datetime-local" ? fromLocal(event.target.value) : event.target.value.trim()),
            });
        return h(
          "div",
          { class: ["field", kind === "datetime-local" && "grow"] },
          h("label", { for: id }, label),
          control,
        );
      }),
    );
  }

  #chain() {
    if (!session.may("audit_chain"))
      return empty("The chain is of all namespaces.", "Your token is for some of them only.");
    const resource = this.watch("/v1/audit/chain", { on: ["audit"] });
    const command = "raftsched audit verify";
    return shown(resource, (chain) => [
      h(
        "p",
        null,
        `As of entry ${number(chain.index)} of the log; the same on every node that has applied it. Each record has the hash of the one before it.`,
      ),
      h(
        "div",
        { class: "grid" },
        CHAINS.map(([kind, title]) => card(title, heads(chain[kind]))),
      ),
      h(
        "p",
        { class: "row" },
        "To check all records against these hashes: ",
        h("code", null, command),
        copyButton(command),
      ),
    ]);
  }

  #refusals() {
    if (!session.may("audit_refusals"))
      return empty("Refusals are of all namespaces.", "Your token is for some of them only.");
    return shown(this.watch("/v1/audit/refusals", { every: 5_000 }), ({ node, items }) => [
      h(
        "p",
        null,
        `Requests that ${node} answered with 401, 403 or 429 since it was started: the newest first, alike ones of one minute together. Each node keeps its own.`,
      ),
      items.length
        ? table(REFUSED, items, {
            key: (row) => `${row.first_at} ${row.status} ${row.method} ${row.actor} ${row.remote}`,
            caption: "Refusals",
          })
        : empty(`${node} has refused nothing.`),
    ]);
  }
}
define("rs-audit-page", AuditPage);

function keyOf(row) {
  return `${row.kind} ${row.index} ${row.position}`;
}

function heads(chain) {
  const hash = (text) => (text ? [h("code", null, text), copyButton(text)] : "none");
  return facts([
    ["Records", number(chain.count)],
    ["Newest", hash(chain.head)],
    ["Before the oldest that is kept", hash(chain.base)],
  ]);
}

const CHAINS = [
  ["change", "Changes"],
  ["job", "Changes of jobs"],
  ["secret", "Changes of secrets"],
  ["work", "Work handed in"],
];

const AUDIT_COLUMNS = [
  { title: "When", cell: (row) => timeOf(row.at) },
  {
    title: "Operation",
    class: "nowrap",
    cell: (row) => [h("span", { class: "mono" }, row.operation), row.count > 1 ? ` × ${number(row.count)}` : ""],
  },
  { title: "Object", cell: (row) => aim(row) },
  { title: "Who", cell: (row) => [row.actor, row.remote ? h("div", { class: "muted" }, row.remote) : ""] },
  { title: "Namespace", cell: (row) => row.namespace ?? "" },
  { title: "Log entry", number: true, cell: (row) => number(row.index) },
  { title: "Change", cell: (row) => change(row.change) },
];

const REFUSED = [
  { title: "Last", cell: (row) => timeOf(row.last_at) },
  { title: "Times", number: true, cell: (row) => number(row.count) },
  { title: "Status", number: true, cell: (row) => row.status },
  { title: "Who", cell: (row) => row.actor ?? h("span", { class: "muted" }, "nobody known") },
  { title: "From", cell: (row) => row.remote ?? "" },
  { title: "Request", cell: (row) => h("code", null, `${row.method} ${row.resource}`) },
];

function aim(row) {
  const words = row.job ?? row.subject ?? row.resource ?? "";
  const to = linkOf(row);
  return [
    to ? h("a", { href: to }, words) : words,
    row.resource && row.resource !== words ? h("div", { class: "muted mono" }, row.resource) : "",
  ];
}

function change(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return h("details", null, h("summary", null, "show"), h("pre", null, text));
}
