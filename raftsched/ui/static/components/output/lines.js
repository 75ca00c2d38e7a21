/** The lines of an output that are in memory: made of pieces that say their stream, and never more than so many. */

import { Terminal } from "./terminal.js";

export const LINES_MAX = 100_000;
export const CHARACTERS_MAX = 12_000_000;
export const LINE_MAX = 4_096; // characters; a longer line is shown as several
const OPEN_MAX = 50; // lines of the other stream after which a line that was not ended is not gone on with
const encoder = new TextEncoder();
const SPARE_LINES = 0.05; // of the limits, so that not every line costs the removal of one

/**
 * A line: `{text, stream, marks, joined, ended}`. `marks`: null, or [place, style, ...] in order; `joined`: it goes on with
 * the line of its stream before; `note`: nobody printed it, it says what is missing.
 */
export class Lines {
  list = [];
  dropped = 0; // lines that were taken out at the beginning; less than 0 when some were put there
  characters = 0;
  widest = 0;
  start = null; // the place where the first line begins: bytes of both streams before it; null when that is not known
  end = null; // the place behind the last one
  version = 0; // another one for each change of lines that were there before
  #limits;
  #streams = {};
  #current = null;
  #marks = []; // [line, place] of lines that begin where a piece has its first end of a line

  constructor({ lines = LINES_MAX, characters = CHARACTERS_MAX } = {}) {
    this.#limits = { lines, characters };
  }

  /** Takes a piece of the API: `{offset, text, stream, skipped}`; `end`: the place behind it. */
  add({ offset, text, stream, skipped = 0 }, end) {
    if (skipped) this.#note(skipped);
    if (this.end === null) this.start = offset;
    this.end = end;
    this.#current = this.#streams[stream] ??= { name: stream, terminal: new Terminal(), line: null, at: 0 };
    const whole = text.indexOf("\n") + 1;
    if (whole) {
      this.#current.terminal.feed(text.slice(0, whole), this);
      this.#marks.push([this.list.length + this.dropped, offset + encoder.encode(text.slice(0, whole)).length]);
    }
    this.#current.terminal.feed(whole ? text.slice(whole) : text, this);
    const { lines, characters } = this.#limits;
    if (this.list.length > lines * (1 + SPARE_LINES) || this.characters > characters * (1 + SPARE_LINES)) this.#drop();
  }

  /** Puts the lines before those that are here, and takes out the last ones when they are too many. Returns whether. */
  prepend(older) {
    const first = this.list[0];
    const last = older.list.at(-1);
    if (first && last && !last.ended && !last.note && last.stream === first.stream) first.joined = true;
    this.list = older.list.concat(this.list);
    this.dropped -= older.list.length;
    this.characters += older.characters;
    this.widest = Math.max(this.widest, older.widest);
    this.start = older.start ?? this.start;
    this.version += 1;
    let cut = this.list.length;
    const { lines, characters } = this.#limits;
    while (cut > lines || (this.characters > characters && cut > 1)) this.characters -= this.list[--cut].text.length;
    const over = cut < this.list.length;
    this.list.length = cut;
    return over;
  }

  // ------------------------------------------------------------ what a terminal says

  write(text, style) {
    let line = this.#line();
    if (line.restarted) this.#clear(line);
    for (let at = 0; at < text.length;) {
      if (line.text.length >= LINE_MAX) line = this.#begin(true);
      const part =
        at || text.length > LINE_MAX - line.text.length ? text.slice(at, at + LINE_MAX - line.text.length) : text;
      const before = line.marks ? line.marks.at(-1) : null;
      if (style !== before) (line.marks ??= []).push(line.text.length, style);
      line.text = line.text ? line.text + part : part;
      this.characters += part.length;
      at += part.length;
      if (line.text.length > this.widest) this.widest = line.text.length;
    }
    this.#touched();
  }

  newline() {
    this.#line().ended = true;
    this.#current.line = null;
  }

  restart() {
    this.#line().restarted = true;
  }

  back() {
    const line = this.#line();
    if (!line.text) return;
    line.text = line.text.slice(0, -1);
    this.characters -= 1;
    while (line.marks?.length && line.marks.at(-2) > line.text.length) line.marks.length -= 2;
    this.#touched();
  }

  pad(width, style) {
    const line = this.#line();
    this.write(" ".repeat(width - ((line.restarted ? 0 : line.text.length) % width)), style);
  }

  #line() {
    const { line, at } = this.#current;
    if (!line) return this.#begin(false);
    return this.list.length + this.dropped - at > OPEN_MAX ? this.#begin(true) : line;
  }

  #begin(joined) {
    const { name } = this.#current;
    const line = { text: "", stream: name, marks: null, joined, ended: false, restarted: false };
    this.#current.line = line;
    this.#current.at = this.list.push(line) - 1 + this.dropped;
    return line;
  }

  /** Notes that a line changed which is not the last one. */
  #touched() {
    if (this.#current.at !== this.list.length - 1 + this.dropped) this.version += 1;
  }

  #clear(line) {
    this.characters -= line.text.length;
    line.text = "";
    line.marks = null;
    line.restarted = false;
  }

  #note(skipped) {
    for (const stream of Object.values(this.#streams)) stream.line = null;
    this.list.push({ text: "", stream: "", marks: null, joined: false, ended: true, note: skipped });
  }

  #drop() {
    const { lines, characters } = this.#limits;
    let count = 0;
    let left = this.characters;
    while (this.list.length - count > lines || left > characters) left -= this.list[count++].text.length;
    const kept = this.#marks.findIndex(([line]) => line >= this.dropped + count);
    this.start = null;
    if (kept >= 0) {
      [[count, this.start]] = this.#marks.splice(0, kept + 1).slice(-1);
      count -= this.dropped;
    }
    for (const { text } of this.list.splice(0, count)) this.characters -= text.length;
    this.dropped += count;
  }
}

/** Rows of lines: one for each, or as many as it takes where lines are wrapped after so many columns. */
export class Rows {
  #lines;
  #columns = 0;
  #ends = []; // of each line, the rows up to its end
  #base = 0; // rows of the lines that were dropped
  #dropped = 0;
  #version = 0;

  constructor(lines) {
    this.#lines = lines;
  }

  /** Brings it up to date. `columns`: 0 for lines that are not wrapped. Returns the rows that went at the beginning. */
  update(columns) {
    const { list, dropped, version } = this.#lines;
    const count = dropped - this.#dropped;
    const same = columns === this.#columns;
    let gone = same && !columns ? count : 0;
    if (same && columns && count > 0) {
      const base = this.#ends[count - 1] ?? this.#ends.at(-1) ?? this.#base;
      gone = base - this.#base;
      this.#base = base;
      this.#ends.splice(0, count);
    }
    if (!same || version !== this.#version) {
      this.#ends.length = 0;
      this.#base = 0;
    }
    [this.#columns, this.#dropped, this.#version] = [columns, dropped, version];
    if (columns) {
      this.#ends.length = Math.min(Math.max(0, this.#ends.length - 1), list.length); // the last one may have grown
      let end = this.#ends.at(-1) ?? this.#base;
      for (let at = this.#ends.length; at < list.length; at++) {
        end += Math.max(1, Math.ceil(list[at].text.length / columns));
        this.#ends.push(end);
      }
      if (same && count < 0) gone = -this.rowOf(-count);
    }
    return gone;
  }

  /** Returns the number of rows. */
  get total() {
    return this.#columns ? (this.#ends.at(-1) ?? this.#base) - this.#base : this.#lines.list.length;
  }

  /** Returns the row at which a line begins. */
  rowOf(line) {
    return this.#columns ? (line ? this.#ends[line - 1] - this.#base : 0) : line;
  }

  /** Returns `[line, part]` of a row: the line, and which of its rows it is. */
  at(row) {
    if (!this.#columns) return [row, 0];
    let [low, high] = [0, this.#ends.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle] - this.#base > row) high = middle;
      else low = middle + 1;
    }
    return [low, row - this.rowOf(low)];
  }
}
