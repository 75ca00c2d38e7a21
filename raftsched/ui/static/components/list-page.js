/** What pages with a long live list and filters in their address have in common. */

import { Page } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { bind } from "../core/keys.js";
import { LiveList } from "../core/live-list.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { problem } from "./basics.js";

const LIST_KEPT_MS = 60_000; // a list that was left, for a step back
const TYPED_MS = 200; // without a key, after which what was typed is looked for

const kept = new Map(); // key -> {list, timer}

/** `options()` returns those of the LiveList for the filters in `this.query`; `drawn()` is the list's element. */
export class ListPage extends Page {
  list = null;
  #key = "";
  #typed = 0;
  #turn = 0; // of the address: what was typed before is of another one

  connected() {
    this.open();
    this.on(session, "change", () => (this.open(), this.update()));
    bind({ "/": ["search", () => this.querySelector("input[type=search]")?.focus()] }, this.signal);
  }

  disconnected() {
    clearTimeout(this.#typed);
    this.#leave();
  }

  queryChanged() {
    this.#turn++;
    this.open();
    this.#draw();
  }

  #draw() {
    this.update();
    this.drawn()?.update();
  }

  /** Takes up the list of the filters that hold now. */
  open() {
    const options = this.options();
    const key = JSON.stringify([this.localName, options.path, options.query, session.who?.name]);
    if (key === this.#key) return;
    this.#leave();
    this.#key = key;
    const before = kept.get(key);
    clearTimeout(before?.timer);
    kept.delete(key);
    this.list = before?.list ?? new LiveList(options);
    this.list.sleep(false);
    this.list.changed = () => this.#draw();
    this.opened();
  }

  /** Called when another list is shown. */
  opened() {}

  drawn() {
    return this.querySelector("rs-virtual-list");
  }

  #leave() {
    const { list } = this;
    if (!list) return;
    list.changed = () => {};
    list.sleep(true);
    const key = this.#key;
    kept.set(key, { list, timer: setTimeout(() => (list.stop(), kept.delete(key)), LIST_KEPT_MS) });
    this.list = null;
    this.#key = "";
  }

  /** Sets filters: a step in the history. */
  filter(changes) {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    navigate(location.pathname + (text ? `?${text}` : ""));
  }

  /** Returns a field to search in as one types. */
  search(name, label, placeholder) {
    const typed = (event) => {
      const { value } = event.target;
      clearTimeout(this.#typed);
      this.#typed = setTimeout(() => {
        this.setQuery({ [name]: value.trim() });
        this.open();
      }, TYPED_MS);
    };
    return h(
      "div",
      { class: "field grow", key: `${name} ${this.#turn}` },
      h("label", { for: `filter-${name}` }, label),
      h("input", {
        id: `filter-${name}`,
        type: "search",
        placeholder,
        autocomplete: "off",
        spellcheck: "false",
        ".defaultValue": this.query.get(name) ?? "",
        oninput: typed,
      }),
    );
  }

  /** Returns a field of a filter. `choices`: [[value, words]], else it is typed. */
  field(name, label, { choices, type = "text", placeholder } = {}) {
    const id = `filter-${name}`;
    const value = this.query.get(name) ?? "";
    const onchange = (event) => this.filter({ [name]: event.target.value.trim() });
    const options = () => choices.map(([one, words]) => h("option", { value: one, key: one }, words));
    const input = choices
      ? h("select", { id, value, onchange }, options())
      : h("input", { id, type, placeholder, ".defaultValue": value, autocomplete: "off", onchange });
    return h("div", { class: "field", key: `${name} ${value}` }, h("label", { for: id }, label), input);
  }

  /** Returns a field of a time, which the address has in UTC. */
  time(name, label) {
    const id = `filter-${name}`;
    const text = this.query.get(name) ?? "";
    const at = Date.parse(text);
    const shifted = Number.isNaN(at) ? NaN : at - new Date(at).getTimezoneOffset() * 60_000;
    const local = Number.isNaN(shifted) ? "" : new Date(shifted).toISOString().slice(0, 16);
    const onchange = ({ target }) => this.filter({ [name]: target.value && new Date(target.value).toISOString() });
    const input = h("input", { id, type: "datetime-local", ".defaultValue": local, onchange });
    return h("div", { class: "field time", key: `${name} ${text}` }, h("label", { for: id }, label), input);
  }

  /** Returns the namespaces to choose from: those of the token, or all there are. */
  namespaces() {
    const own = ownNamespaces();
    if (own) return [...(own.length ? [] : [["", "–"]]), ...own.map((name) => [name, name])];
    const { data } = this.watch("/v1/namespaces?limit=1000", { on: ["namespaces"] });
    const names = new Set((data?.items ?? []).map((one) => one.name));
    if (this.query.get("namespace")) names.add(this.query.get("namespace"));
    return [["", "all"], ...[...names].sort().map((name) => [name, name])];
  }

  #sorted = null; // {list, sort, count, rows}

  /** Sets the order of the rows: the name of a column, "-" before it for the other way; null: as the API has them. */
  sortBy = (sort) => this.filter({ sort });

  /**
   * Returns the list with the rows that are loaded in the order that is asked for. `values`: name -> (row) => what it goes
   * by; an order that is not in it is the API's own.
   */
  ordered(values) {
    const { list } = this;
    const sort = this.query.get("sort") ?? "";
    const name = sort.replace("-", "");
    if (!Object.hasOwn(values, name) || !list.rows.length) return list;
    const value = values[name];
    const kept = this.#sorted;
    if (kept?.list !== list || kept.sort !== sort || kept.was !== list.rows || kept.rows.length !== list.rows.length) {
      const way = sort.startsWith("-") ? -1 : 1;
      const keyed = list.rows.map((row) => [value(row), row]);
      keyed.sort(([a], [b]) => (a === b ? 0 : a === null || b === null ? (a === null) - (b === null) : a < b ? -way : way));
      this.#sorted = { list, sort, was: list.rows, rows: keyed.map((pair) => pair[1]) };
    }
    const { rows } = this.#sorted;
    const { ready, done, total } = list;
    const look = () => list.look(0, 0); // the newest stay as they are now
    return { rows, length: rows.length, ready, done, total, look, indexOf: (id) => rows.indexOf(list.get(id)) };
  }

  /** Returns how many there are, as far as that is known, and of which of them an order of `values` is. */
  counted(one, values = {}) {
    const { list } = this;
    const sort = (this.query.get("sort") ?? "").replace("-", "");
    const of = !list.done && Object.hasOwn(values, sort) ? `, the ${number(list.rows.length)} loaded of them sorted` : "";
    return this.#counted(one) + of;
  }

  #counted(one) {
    const { list } = this;
    if (!list.ready) return "";
    if (list.done) return plural(list.rows.length, one);
    if (list.total === null) return `${plural(list.rows.length, one)} so far`;
    return plural(Math.max(list.total, list.rows.length), one);
  }

  /** Returns what is wrong with the list. */
  trouble() {
    return problem(this.list?.error);
  }
}

/** Returns the namespaces that the token is for; null: all. */
export function ownNamespaces() {
  const { who } = session;
  if (!who?.namespaces) return null;
  return [...new Set([...who.namespaces, ...(who.grants ?? []).map((grant) => grant.namespace)])].sort();
}

/** Returns the namespace for new jobs where the token may not write to the default one. */
export function homeNamespace() {
  const may = (name) => session.may("jobs_create", name);
  const grants = session.who?.grants ?? [];
  return may("default") ? undefined : [...(ownNamespaces() ?? []), ...grants.map((one) => one.namespace)].find(may);
}

/** Returns the namespace that a filter holds to: a token that is not for all must name one. */
export function namespaceOf(query) {
  return query.get("namespace") || ownNamespaces()?.[0] || undefined;
}
