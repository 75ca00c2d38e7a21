/**
 * The pages of named things (queues, calendars, ...): the list of all, and one with all that is known of it.
 *
 * A kind says what differs: its `noun`, `title`, `path` in the API, `ui` here, `on` (what changes it), `fields`,
 * `columns`, and `operations` (the beginning of their ids). `body` makes the body of a PUT from the fields' values.
 */

import { del, get, put } from "../core/api.js";
import { Page } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { bind } from "../core/keys.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { asOf, card, empty, facts, heading, loading, problem, shown, stateBadge, table, timeOf } from "./basics.js";
import { confirmDialog, toast } from "./dialog.js";
import { bindListKeys } from "./list-keys.js";
import { openForm } from "./resource-form.js";

const RESOURCES_PAGE = 500;
const JOBS = 10;
const MANY = 8; // rows from which on a list can be filtered
const RULE = "Letters, digits, dots, dashes and underscores";

/** Returns a button. */
export function button(words, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, words);
}

/** Returns a badge in the colours of a state. */
export function badge(state, mark, words) {
  return h("span", { class: `badge state-${state}` }, h("span", { "aria-hidden": "true" }, mark), ` ${words}`);
}

/** Returns the address of one in the API. */
export function pathOf(kind, name) {
  return `${kind.path}/${encodeURIComponent(name)}`;
}

/** Returns a link to the page of one. */
export function linkTo(kind, name) {
  return h("a", { href: `${kind.ui}/${encodeURIComponent(name)}` }, name);
}

/** Returns the headers of a change of what was read at this revision; without one there is nothing yet. */
export function ifMatch(revision) {
  return { headers: revision ? { "If-Match": `"${revision}"` } : { "If-None-Match": "*" } };
}

/** Returns how much of a limit is used, as a bar and in words; the number alone where there is no limit. */
export function gauge(used, most, words = "") {
  if (most === null) return `${number(used)} ${words}`;
  return h(
    "span",
    { class: "gauge" },
    h(
      "span",
      { class: used >= most && "full", "aria-hidden": "true" },
      h("span", { style: { width: `${most ? Math.min(100, (100 * used) / most) : 100}%` } }),
    ),
    `${number(used)} of ${number(most)} ${words}`,
  );
}

/** Returns a table, or what `empty` says where there are no rows. */
export function tableOr(columns, rows, caption, ...none) {
  return rows.length ? table(columns, rows, { key: (row) => row.id ?? row.name, caption }) : empty(...none);
}

/** Returns a part with when one was made and changed. */
export function about({ revision, created_at: made, modified_at: changed }, more = []) {
  return card(
    "About",
    facts([
      ...more,
      ["Revision", revision ? number(revision) : null],
      ["Created", timeOf(made)],
      ["Changed", timeOf(changed)],
    ]),
  );
}

function createOne(kind, name, done) {
  openForm({
    title: `New ${kind.noun}`,
    fields: [
      { pointer: "/name", label: "Name", help: `${RULE}; ${kind.named}.`, required: true, initial: name },
      ...kind.fields,
      ...(kind.onlyNew ?? []),
    ],
    intro: kind.intro,
    action: "Create",
    async submit({ name: given, ...values }) {
      if (!given) throw Object.assign(new Error(), { errors: [{ pointer: "/name", detail: "is missing" }] });
      const body = kind.body(values);
      const made = await (kind.create?.(given, body) ?? put(pathOf(kind, given), body, ifMatch()));
      toast(`Created ${given}`);
      await navigate(`${kind.ui}/${encodeURIComponent(given)}`);
      done?.();
      kind.created?.(made);
    },
  });
}

/** The list of all of a kind. A subclass says `kind`. */
export class ResourcesPage extends Page {
  #pages = 1;
  #filter = "";

  connected() {
    this.on(session, "change", () => this.update());
    bindListKeys(this, "tbody tr, .operation", this.signal);
    bind({ "/": ["filter", () => this.querySelector("input[type=search]")?.focus()] }, this.signal);
  }

  render() {
    const { kind } = this;
    const rows = [];
    let first;
    let cursor = "";
    for (let at = 0; at < this.#pages && cursor !== null; at++) {
      const query = new URLSearchParams({ limit: RESOURCES_PAGE, ...(cursor && { cursor }) });
      const part = this.watch(`${kind.path}?${query}`, { on: kind.on });
      first ??= part;
      rows.push(...(part.data?.items ?? []));
      cursor = part.data?.next ?? null;
    }
    const make =
      kind.fields && session.may(`${kind.operations}_put`)
        ? button(`New ${kind.noun}`, () => createOne(kind), { class: "primary" })
        : null;
    const none = h("section", { class: "card" }, empty(...kind.empty, make));
    return [
      heading(kind.title, { actions: rows.length ? make : null, below: h("p", { class: "muted" }, kind.says) }),
      shown(first, () => (rows.length ? this.list(rows, cursor !== null) : none)),
      cursor === null ? null : button("Show more", () => this.#show({ pages: this.#pages + 1 })),
    ];
  }

  #show({ pages = this.#pages, filter = this.#filter }) {
    this.#pages = pages;
    this.#filter = filter;
    this.update();
  }

  /** Returns the rows that are shown. */
  list(rows, more) {
    const { kind } = this;
    const found = rows.filter((row) => row.name.includes(this.#filter));
    const oninput = (event) => this.#show({ filter: event.target.value.trim() });
    const filter = h("input", {
      type: "search",
      "aria-label": "Filter by name",
      placeholder: "Filter by name",
      value: this.#filter,
      oninput,
    });
    const count = h("span", { class: "muted" }, plural(rows.length, kind.noun), more ? " and more" : "");
    return h(
      "section",
      { class: "card" },
      rows.length > MANY ? h("div", { class: "row list-tools" }, filter, count) : null,
      tableOr(kind.columns, found, kind.title, `No ${kind.noun} has "${this.#filter}" in its name.`),
    );
  }
}

/** One of a kind. A subclass says `kind` and `parts(row)`, perhaps `actions(row)` and `below(row)`. */
export class ResourcePage extends Page {
  connected() {
    this.name = this.params.name;
    this.path = pathOf(this.kind, this.name);
    this.on(session, "change", () => this.update());
    document.title = `${this.name} · ${this.kind.title} · raftsched`;
  }

  /** Returns what was read of it. */
  get resource() {
    return this.watch(this.path, { on: this.kind.on });
  }

  /** Returns whether the token may do something with it. */
  may(what) {
    return session.may(`${this.kind.operations}_${what}`, this.kind.scoped && this.name);
  }

  render() {
    const { kind, name, resource } = this;
    const row = resource.data;
    const above = h("a", { href: kind.ui }, kind.title);
    if (resource.error?.status === 404) return [heading(name, { above }), this.absent()];
    if (!row) return [heading(name, { above }), resource.error ? problem(resource.error) : loading()];
    const actions = [
      ...(this.actions?.(row) ?? []),
      this.may("put") ? button(row.revision ? "Edit" : "Declare it", () => this.#edit(row)) : null,
      this.may("delete") && row.revision ? button("Delete", () => this.#delete(row), { class: "danger" }) : null,
    ];
    return [heading(name, { above, actions, below: this.below?.(row) }), asOf(resource), this.parts(row)];
  }

  /** Returns what is shown when it is not there. */
  absent() {
    const { kind, name } = this;
    const make = this.may("put")
      ? button(`Create ${name}`, () => createOne(kind, name, () => this.resource.reload()), { class: "primary" })
      : null;
    return h("section", { class: "card" }, empty(`There is no ${kind.noun} ${name}.`, kind.absent, make));
  }

  #edit(row) {
    const { kind, path } = this;
    openForm({
      title: `Edit ${row.name}`,
      fields: kind.fields,
      row,
      intro: kind.intro,
      reload: () => get(path),
      submit: async (values, present) => {
        await put(path, kind.body(values, present), ifMatch(present.revision));
        await this.resource.reload();
      },
    });
  }

  async #delete({ name, revision }) {
    const { kind, path } = this;
    const run = () => del(path, ifMatch(revision));
    const title = `Delete the ${kind.noun} ${name}?`;
    if (!(await confirmDialog({ title, body: kind.deletion, action: "Delete", danger: true, run }))) return;
    toast(`Deleted ${name}`);
    await navigate(kind.ui);
  }

  /** Returns a part with the first jobs that a filter of their list finds, and a link to all of them. */
  jobsOf(filter, ...none) {
    const query = new URLSearchParams({ [filter]: this.name });
    const found = this.watch(`/v1/jobs?${query}&limit=${JOBS}`, { on: ["jobs"] });
    const columns = [
      { title: "Job", cell: (job) => h("a", { href: `/ui/jobs/${job.id}` }, job.name ?? job.id) },
      { title: "Namespace", cell: (job) => job.namespace, class: "wide-only" },
      { title: "State", cell: (job) => stateBadge(job.state) },
      { title: "Running", cell: (job) => number(job.running), number: true, class: "wide-only" },
      { title: "Next", cell: (job) => timeOf(job.next_fire_at) },
    ];
    const list = ({ items }) => tableOr(columns, items, "Jobs", ...none);
    const all = h("a", { href: `/ui/jobs?${query}` }, "All in the list of jobs");
    return card("Jobs", shown(found, list), { actions: all });
  }
}
