/** Filters with a name: the query of an address, kept in this browser only. */

import { View, define } from "../core/element.js";
import { navigate } from "../core/router.js";
import { h } from "../core/vdom.js";
import { announce } from "./basics.js";
import { openDialog } from "./dialog.js";

const SAVED = "raftsched-filters"; // in localStorage: {path: [{name, query, first}]}
const SAVED_MAX = 20; // of one page
const NAME_MAX = 40; // characters
const QUERY_MAX = 1_000;

/** Returns what was kept as far as it is what this page keeps: another program of this origin may have written it. */
export function savedOf(text, path) {
  let all;
  try {
    all = JSON.parse(text ?? "{}")?.[path];
  } catch {
    all = null;
  }
  if (!Array.isArray(all)) return [];
  const fits = (value, most) => typeof value === "string" && value.length <= most;
  return all
    .filter((one) => fits(one?.name, NAME_MAX) && one.name && fits(one.query, QUERY_MAX))
    .slice(0, SAVED_MAX)
    .map(({ name, query, first }) => ({ name, query, first: first === true }));
}

function read(path) {
  try {
    return savedOf(localStorage.getItem(SAVED), path);
  } catch {
    return []; // a browser without storage
  }
}

function write(path, list) {
  try {
    const all = JSON.parse(localStorage.getItem(SAVED) ?? "{}");
    localStorage.setItem(SAVED, JSON.stringify({ ...all, [path]: list }));
    return true;
  } catch {
    announce("This browser did not let the page keep it");
    return false;
  }
}

class SavedFilters extends View {
  #query = "";

  set query(query) {
    this.#query = query;
    this.update();
  }

  connected() {
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", "Saved filters");
    const first = read(location.pathname).find((one) => one.first);
    if (first?.query && !location.search) navigate(`${location.pathname}?${first.query}`, { replace: true });
  }

  render() {
    const list = read(location.pathname);
    const known = list.some(({ query }) => query === this.#query);
    if (!list.length && !this.#query) return [];
    return [
      list.map(({ name, query, first }) =>
        h(
          "a",
          {
            key: name,
            class: "chip",
            href: `${location.pathname}${query && `?${query}`}`,
            "aria-current": query === this.#query ? "true" : null,
          },
          first ? `★ ${name}` : name,
        ),
      ),
      this.#query && !known && list.length < SAVED_MAX && this.#query.length <= QUERY_MAX
        ? h("button", { type: "button", class: "quiet small", key: "save", onclick: () => this.#ask() }, "Save this filter")
        : null,
      list.length
        ? h("button", { type: "button", class: "quiet small", key: "edit", onclick: () => this.#edit() }, "Edit saved")
        : null,
    ];
  }

  #ask() {
    const query = this.#query;
    const path = location.pathname;
    const dialog = openDialog({
      title: "Save this filter",
      body: (handle) =>
        h(
          "form",
          {
            onsubmit: (event) => {
              event.preventDefault();
              const name = event.target.elements.name.value.trim();
              if (!name) return;
              write(path, [...read(path).filter((one) => one.name !== name), { name, query }]);
              handle.close();
              this.update();
            },
          },
          h("p", { class: "mono" }, new URLSearchParams(query).toString().replaceAll("&", " & ")),
          h("label", { class: "field" }, "Name", h("input", { name: "name", maxlength: NAME_MAX, autocomplete: "off", required: true })),
          h("p", { class: "muted" }, "It is kept in this browser only."),
          h("div", { class: "actions end" }, h("button", { type: "submit", class: "primary" }, "Save")),
        ),
    });
    dialog.element.querySelector("input").focus();
  }

  #edit() {
    const path = location.pathname;
    const change = (handle, list) => {
      write(path, list);
      handle.update();
      this.update();
    };
    openDialog({
      title: "Saved filters",
      body: (handle) => {
        const list = read(path);
        if (!list.length) return h("p", { class: "muted" }, "None are left.");
        return h(
          "ul",
          { class: "stack" },
          list.map((one) =>
            h(
              "li",
              { class: "row", key: one.name },
              h("strong", null, one.name),
              h("code", null, one.query || "no filter"),
              h(
                "button",
                {
                  type: "button",
                  class: "small",
                  "aria-pressed": String(one.first),
                  title: "Shown when the page is opened without a filter",
                  onclick: () =>
                    change(
                      handle,
                      list.map((each) => ({ ...each, first: each.name === one.name && !one.first })),
                    ),
                },
                "Default",
              ),
              h(
                "button",
                {
                  type: "button",
                  class: "small",
                  "aria-label": `Delete ${one.name}`,
                  onclick: () =>
                    change(
                      handle,
                      list.filter(({ name }) => name !== one.name),
                    ),
                },
                "Delete",
              ),
            ),
          ),
        );
      },
    });
  }
}
define("rs-saved", SavedFilters);

/** Returns the filters that were kept for the page of this address, and a way to keep the one that holds now. */
export function savedFilters(query) {
  return h("rs-saved", { class: "row", ".query": query.toString() });
}
