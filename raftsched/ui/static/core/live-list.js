/**
 * A long list of the API, live: read by cursor as far as it is looked at, and on in the background.
 *
 * Rows have an order that the page can tell (`compare`), so a part that is read again replaces what lay between its
 * first and its last row, whatever came and went. What is read again is only what is on the screen.
 */

import { request } from "./api.js";
import { onChange } from "./changes.js";

const FIRST = 100; // rows that are read first, and again after each change while they are on the screen
const PAGE = 1000;
const AHEAD = 500; // rows read beyond the screen at once; the others follow while nothing else is to do
const SOON_MS = 500; // between two readings of what is on the screen,
const DEEP_MS = 2_000; // further down, where a page is read for it,
const LIST_BUSY_MS = 3_000; // and while more changes than is told one by one
const QUIET_MS = 4_000; // without such changes before the list is read on in the background
const LIST_SHARE = 8; // of the time since, a reading may take

/** `id` of a row must be its "id". Calls `changed` after each change of what is here. */
export class LiveList {
  rows = [];
  total = null; // rows there are; null: not known
  done = false; // all are here
  error = null;
  ready = false; // it was read once
  #options;
  #known = new Map(); // id -> row
  #pages = []; // {cursor, first, last}, of what was read: to read it again
  #next = undefined; // cursor of what follows
  #abort = new AbortController();
  #first = 0;
  #last = FIRST;
  #timer = 0;
  #due = 0; // when it is read again, of performance.now()
  #dirty = new Set(); // ids that changed and were not read since
  #busyAt = -Infinity;
  #readAt = -Infinity;
  #took = 0;
  #reading = false;
  #filling = false;
  #asleep = false;

  /**
   * @param {string} options.path
   * @param {object} options.query filters
   * @param {string} options.fields
   * @param {(a, b) => number} options.compare
   * @param {(change) => Set<string>} options.touched ids of rows that a change is about
   * @param {(change) => Set<string>} options.made ids in it that may be new
   * @param {string[]} options.kinds of changes that concern the list
   * @param {(signal) => Promise<number|null>} [options.count] returns how many rows there are
   */
  constructor(options, changed) {
    this.#options = options;
    this.changed = changed;
    const stop = onChange((change) => this.#heard(change));
    const seen = () => this.#due && this.#wait(0);
    document.addEventListener("visibilitychange", seen);
    this.#abort.signal.addEventListener("abort", () => {
      stop();
      clearTimeout(this.#timer);
      document.removeEventListener("visibilitychange", seen);
    });
    this.refresh();
    this.#count();
  }

  /** Reads nothing while nobody looks at the list; afterwards what changed meanwhile. */
  sleep(asleep) {
    this.#asleep = asleep;
    if (asleep) clearTimeout(this.#timer);
    this.#timer = 0;
    if (!asleep && this.#due) this.#wait(0);
  }

  /** Ends all reading. */
  stop() {
    this.#abort.abort();
  }

  /** How many rows the list is long, as far as that is known. */
  get length() {
    return this.done ? this.rows.length : Math.max(this.total ?? 0, this.rows.length + (this.ready ? 1 : 0));
  }

  get(id) {
    return this.#known.get(id);
  }

  /** Returns the place of a row, or -1. */
  indexOf(id) {
    const row = this.#known.get(id);
    return row ? this.#place(row) : -1;
  }

  /** Says which rows are on the screen: these are kept up to date, and read first. */
  look(first, last) {
    this.#first = first;
    this.#last = last;
    if (this.#dirty.size && this.#anyDirty()) this.#wait(SOON_MS);
    this.#fill();
  }

  /** Reads again what is on the screen. */
  async refresh() {
    if (this.#reading) return void this.#wait(SOON_MS);
    this.#reading = true;
    this.#due = 0;
    this.#readAt = performance.now();
    try {
      if (this.#first < FIRST || !this.rows.length) await this.#readTop();
      const from = this.#pages.find(({ last }) => last && this.#compare(last, this.rows[this.#first]) >= 0);
      if (this.#first >= FIRST && from) await this.#readPage(from);
      this.error = null;
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.error = error;
    }
    this.#took = performance.now() - this.#readAt;
    this.#reading = false;
    this.changed();
    this.#fill();
  }

  #heard(change) {
    if (change === null) return this.#wait(0);
    if (!this.#options.kinds.some((kind) => change.kinds.has(kind))) return;
    if (change.more) {
      this.#busyAt = performance.now();
      return this.#wait(LIST_BUSY_MS);
    }
    for (const id of this.#options.touched(change)) if (this.#known.has(id)) this.#dirty.add(id);
    const made = [...this.#options.made(change)].some((id) => !this.#known.has(id));
    if ((made && this.#first < FIRST) || this.#anyDirty()) this.#wait(this.#first < FIRST ? SOON_MS : DEEP_MS);
  }

  #anyDirty() {
    for (let at = this.#first; at < Math.min(this.#last, this.rows.length); at++) {
      if (this.#dirty.has(this.rows[at].id)) return true;
    }
    return false;
  }

  #wait(apart) {
    const at = Math.max(this.#readAt + Math.max(apart, LIST_SHARE * this.#took), performance.now());
    if (this.#due && this.#due <= at && this.#timer) return;
    this.#due = at;
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (document.hidden || this.#asleep) return;
    this.#timer = setTimeout(() => ((this.#timer = 0), this.refresh()), at - performance.now());
  }

  async #ask(cursor, limit) {
    const { path, query, fields } = this.#options;
    const asked = { ...query, fields, limit, cursor };
    return (await request("GET", path, { query: asked, signal: this.#abort.signal })).data;
  }

  async #readTop() {
    let { items, next } = await this.#ask(undefined, FIRST);
    while (next && items.length < FIRST / 2) {
      const more = await this.#ask(next, FIRST); // few rows match: the node looked through so many for now
      items = items.concat(more.items);
      next = more.next;
      if (items.length && !this.ready) this.#take(items, null, next);
    }
    this.#take(items, null, next);
  }

  async #readPage(page) {
    const { items, next } = await this.#ask(page.cursor, page.limit);
    this.#take(items, page, next);
  }

  /** Puts rows in place of what lies between the first and the last of them. `page`: null for the list's beginning. */
  #take(items, page, next) {
    const last = items.at(-1);
    const from = page ? this.#place(page.first) : 0;
    const apart = !page && next && last && this.rows.length && this.#compare(last, this.rows[0]) < 0;
    const to = !next || apart ? this.rows.length : last ? this.#place(last, true) : from;
    const onwards = to === this.rows.length; // nothing that was read follows
    for (const row of this.rows.slice(from, to)) {
      this.#known.delete(row.id);
      this.#dirty.delete(row.id);
    }
    for (const row of items) this.#known.set(row.id, row);
    this.rows = [...this.rows.slice(0, from), ...items, ...this.rows.slice(to)];
    if (page && last) page.last = last;
    if (onwards) {
      this.#next = next;
      this.#pages = page ? this.#pages.slice(0, this.#pages.indexOf(page) + 1) : [];
      this.done = !next;
    }
    if (this.done) this.total = this.rows.length;
    this.ready = true;
    this.changed();
  }

  /** Reads on: to the screen at once, and the rest when nothing else is to do. */
  async #fill() {
    if (this.#filling || !this.ready) return;
    this.#filling = true;
    const { signal } = this.#abort;
    try {
      while (!this.done && !signal.aborted) {
        const busy = performance.now() - this.#busyAt < QUIET_MS;
        const urgent = this.rows.length < this.#last + (busy ? 0 : AHEAD);
        const rests = document.hidden || this.#asleep || busy;
        if (!urgent && rests) break;
        const began = performance.now();
        const cursor = this.#next;
        const { items, next } = await this.#ask(cursor, PAGE);
        if (cursor !== this.#next) continue; // the list began anew meanwhile
        for (const row of items) this.#known.set(row.id, row);
        if (items.length) this.#pages.push({ cursor, limit: PAGE, first: items[0], last: items.at(-1) });
        this.rows.push(...items);
        this.#next = next;
        this.done = !next;
        if (this.done) this.total = this.rows.length;
        this.changed();
        if (!urgent) await new Promise((resolve) => setTimeout(resolve, performance.now() - began));
      }
    } catch (error) {
      if (!signal.aborted) {
        this.error = error;
        this.changed();
      }
    }
    this.#filling = false;
  }

  async #count() {
    const { count } = this.#options;
    const total = await count?.(this.#abort.signal).catch(() => null);
    if (this.done || typeof total !== "number") return;
    this.total = total;
    this.changed();
  }

  #compare(a, b) {
    return b === undefined ? -1 : this.#options.compare(a, b);
  }

  /** Returns the place of the first row that is not before this one; `after`: that is after it. */
  #place(row, after = false) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = this.#options.compare(this.rows[middle], row);
      if (order < 0 || (after && order === 0)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
