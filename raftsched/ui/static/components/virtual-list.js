/**
 * A list of any length: only the rows on the screen are elements, and these are used again for others as one scrolls.
 *
 * Rows have the height of the property --row. The page scrolls, not the list: its height is that of all rows. The list
 * is a grid for the keyboard: it has the focus as a whole, and names the row that is meant.
 */

import { View, define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { bind } from "../core/keys.js";
import { navigate } from "../core/router.js";
import { h } from "../core/vdom.js";

const SPARE = 6; // rows above and below the screen
const REST_MS = 150; // without scrolling, after which what is on the screen is at rest
const TICK_MS = 5_000; // times are relative to now

let lists = 0;

/**
 * Properties, set before it is shown: `list` (a LiveList, or those of its rows in another order), `label`, `columns`:
 * [{title, class, cell(row), by}], `open(row)`, which returns the address of a row; `selection` (a RowSelection) where rows can
 * be chosen; `onrest(rows)`, which is called with the rows on the screen; `sort`, the name of the order, and `onsort(name)`,
 * where columns that have a `by` order the rows by it, "-" before it the other way.
 */
class VirtualList extends View {
  active = -1; // index of the row that is meant
  #id = `list-${++lists}`;
  #row = 0; // its height in px
  #first = 0;
  #last = 0;
  #anchor = null; // {id, at} of the first row on the screen
  #rest = 0;

  connected() {
    this.on(window, "scroll", () => this.update(), { passive: true });
    this.on(window, "resize", () => ((this.#row = 0), this.update()));
    const tick = setInterval(() => !document.hidden && this.update(), TICK_MS);
    this.signal.addEventListener("abort", () => (clearInterval(tick), clearTimeout(this.#rest)));
    bind(
      {
        j: ["next row", () => this.#go(this.active + 1)],
        k: ["row before", () => this.#go(this.active - 1)],
        ...(this.selection && { x: ["choose the row", () => this.#choose(this.active)] }),
      },
      this.signal,
    );
  }

  render() {
    const { list } = this;
    if (!list) return [];
    this.#measure();
    const { length } = list;
    list.look(this.#first, this.#last);
    this.#soonAtRest();
    const pool = this.#last - this.#first + 2 * SPARE;
    const from = Math.max(0, this.#first - SPARE);
    const rows = [];
    for (let slot = 0; slot < pool; slot++) {
      // An element shows the same row as long as that is on the screen, so that nothing moves in the document.
      const index = from + ((((slot - from) % pool) + pool) % pool);
      rows.push(this.#rowAt(index, length));
    }
    const columns = this.selection ? [this.#chooser(), ...this.columns] : this.columns;
    return h(
      "div",
      {
        class: "grid-list",
        role: "grid",
        tabindex: "0",
        "aria-label": this.label,
        "aria-rowcount": list.done || list.total !== null ? length + 1 : -1,
        "aria-multiselectable": this.selection ? "true" : null,
        "aria-activedescendant": list.rows[this.active] ? `${this.#id}-${this.active}` : null,
        "aria-busy": list.ready ? null : "true",
        onkeydown: (event) => this.#key(event),
      },
      h(
        "div",
        { role: "rowgroup", class: "grid-head" },
        h(
          "div",
          { role: "row", "aria-rowindex": "1", class: "grid-row" },
          columns.map((column) => this.#header(column)),
        ),
      ),
      h("div", { role: "rowgroup", class: "grid-body", style: { height: `${length * this.#row}px` } }, rows),
    );
  }

  #header({ title, class: kind, by }) {
    const turn = by && [`-${by}`, by].indexOf(this.sort);
    return h(
      "div",
      { role: "columnheader", class: kind, "aria-sort": by ? (["descending", "ascending"][turn] ?? "none") : null },
      by
        ? h(
            "button",
            { type: "button", class: "quiet sorts", onclick: () => this.onsort([by, null, `-${by}`][turn + 1]) },
            title,
            h("span", { "aria-hidden": "true" }, ["↓", "↑"][turn] ?? "↕"),
          )
        : title,
    );
  }

  #rowAt(index, length) {
    if (index >= length) return h("div", { role: "presentation", hidden: true });
    const { selection } = this;
    const row = this.list.rows[index];
    const chosen = Boolean(row && selection?.has(row.id));
    const cells = this.columns.map((column) =>
      h("div", { role: "gridcell", class: column.class }, row ? column.cell(row) : null),
    );
    return h(
      "div",
      {
        role: "row",
        id: `${this.#id}-${index}`,
        class: ["grid-row", !row && "pending", chosen && "chosen", index === this.active && "active"],
        "aria-rowindex": index + 2,
        "aria-selected": selection ? String(chosen) : null,
        style: { transform: `translateY(${index * this.#row}px)` },
        onclick: (event) => event.target.closest("a, button, input, label") ?? this.#go(index, false),
      },
      selection ? h("div", { role: "gridcell", class: "choose" }, this.#box(row, index, chosen)) : null,
      cells,
    );
  }

  #box(row, index, chosen) {
    return h("input", {
      type: "checkbox",
      tabindex: "-1",
      checked: chosen,
      disabled: !row,
      "aria-label": `Choose ${row?.name ?? row?.id ?? "row"}`,
      onclick: (event) => this.#choose(index, event.shiftKey),
    });
  }

  /** Returns the column of the boxes; its own box is for all that match. */
  #chooser() {
    const { selection, list } = this;
    const title = h("input", {
      type: "checkbox",
      checked: selection.all,
      indeterminate: !selection.all && selection.ids.size > 0,
      disabled: !list.length,
      "aria-label": "Choose all that match",
      onclick: () => selection.chooseAll(!selection.all),
    });
    return { class: "choose", title };
  }

  /** Learns which rows are on the screen, and keeps them there when others come above them. */
  #measure() {
    if (!this.#row) this.#row = parseFloat(getComputedStyle(this).getPropertyValue("--row")) || 52;
    const body = this.querySelector(".grid-body");
    const top = body ? body.getBoundingClientRect().top : 0;
    const first = Math.max(0, Math.floor(-top / this.#row));
    const { rows } = this.list;
    if (this.#anchor && this.#first > 0 && first === this.#anchor.at) {
      const now = this.list.indexOf(this.#anchor.id);
      if (now >= 0 && now !== this.#anchor.at) scrollBy(0, (now - this.#anchor.at) * this.#row);
    }
    this.#first = first;
    this.#last = Math.max(0, Math.ceil((innerHeight - Math.min(top, 0) - Math.max(top, 0)) / this.#row)) + 1;
    this.#last = Math.max(this.#last, first + Math.ceil(innerHeight / this.#row) + 1);
    this.#anchor = rows[first] ? { id: rows[first].id, at: first } : null;
  }

  #soonAtRest() {
    clearTimeout(this.#rest);
    if (this.onrest) this.#rest = setTimeout(() => this.onrest(this.list.rows.slice(this.#first, this.#last)), REST_MS);
  }

  /** Makes a row the one that is meant, and brings it onto the screen. */
  #go(to, scroll = true) {
    const { length } = this.list;
    if (!length) return;
    const index = Math.min(length - 1, Math.max(0, to));
    this.active = index;
    const grid = this.querySelector(".grid-list");
    grid.focus({ preventScroll: true });
    if (scroll) {
      const body = this.querySelector(".grid-body").getBoundingClientRect().top;
      const head = this.querySelector(".grid-head").getBoundingClientRect();
      const top = body + index * this.#row;
      const above = Math.max(head.bottom, 0);
      if (top < above) scrollBy(0, top - above);
      else if (top + this.#row > innerHeight) scrollBy(0, top + this.#row - innerHeight);
    }
    this.update();
  }

  #choose(index, range = false) {
    const row = this.list.rows[index];
    if (!row) return;
    if (range && this.selection.mark >= 0) {
      const [low, high] = [Math.min(index, this.selection.mark), Math.max(index, this.selection.mark)];
      this.selection.choose(
        this.list.rows.slice(low, high + 1).map((one) => one.id),
        true,
      );
    } else {
      this.selection.choose([row.id], !this.selection.has(row.id));
    }
    this.selection.mark = this.active = index;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, a, button")) return;
    const page = Math.max(1, Math.floor(innerHeight / this.#row) - 3);
    const row = this.list.rows[this.active];
    const todo = {
      ArrowDown: () => this.#go(this.active + 1),
      ArrowUp: () => this.#go(this.active - 1),
      PageDown: () => this.#go(this.active + page),
      PageUp: () => this.#go(this.active - page),
      Home: () => this.#go(0),
      End: () => this.#go(this.list.length - 1),
      Enter: () => row && navigate(this.open(row)),
      " ": () => this.selection && this.#choose(this.active, event.shiftKey),
    }[event.key];
    if (!todo) return;
    event.preventDefault();
    todo();
  }
}
define("rs-virtual-list", VirtualList);

/** Rows that are chosen: some by their ids, or all that match. */
export class RowSelection {
  ids = new Set();
  all = false;
  mark = -1; // index of the row that was chosen last

  constructor(changed) {
    this.changed = changed;
  }

  has(id) {
    return this.all || this.ids.has(id);
  }

  choose(ids, chosen) {
    this.all = false;
    for (const id of ids) {
      if (chosen) this.ids.add(id);
      else this.ids.delete(id);
    }
    this.changed();
  }

  chooseAll(all) {
    this.all = all;
    this.ids.clear();
    this.changed();
  }
}

/** Returns the name of a row as a link, whole in its title. */
export function named(name, href) {
  return h("a", { href, tabindex: "-1", title: name }, name);
}

/** Returns the second line of a cell, whole in its title; what is null is left out. */
export function second(parts) {
  const text = parts.filter(Boolean).join(" · ");
  return h("span", { class: "second", title: text }, text);
}

/** Returns what can be done with the rows that are chosen. `actions`: [[words, count, offered, run]]; no count: all. */
export function chosenBar(selection, one, all, actions) {
  const quiet = (words, onclick) => h("button", { type: "button", class: "quiet", onclick }, words);
  return h(
    "div",
    { class: "chosen", role: "region", "aria-label": `Chosen ${one}s` },
    h("strong", { role: "status" }, selection.all ? "All that match are chosen" : `${plural(selection.ids.size, one)} chosen`),
    selection.all ? null : quiet(`Choose all that match (${all})`, () => selection.chooseAll(true)),
    quiet("Choose none", () => selection.chooseAll(false)),
    h(
      "div",
      { class: "actions" },
      actions
        .filter(([, , offered]) => offered)
        .map(([words, count, , onclick]) => {
          const kind = /Kill|Delete/.test(words) ? "danger" : "";
          const text = count === null ? words : `${words} ${number(count)}`;
          return h("button", { type: "button", class: kind, disabled: count === 0, onclick, key: words }, text);
        }),
    ),
  );
}

/** Returns a virtual list; see VirtualList for its properties. `key`: another one makes a new list. */
export function virtualList({ key, ref, ...properties }) {
  const given = Object.entries(properties).map(([name, value]) => [`.${name}`, value]);
  return h("rs-virtual-list", { key, ref, ...Object.fromEntries(given) });
}
