/** The output of a run, as it comes: colours, stdout and stderr told apart, search, and no more lines than are seen. */

import { fetchOpen, stream } from "../../core/api.js";
import { View, define } from "../../core/element.js";
import { bytes, number, plural } from "../../core/format.js";
import { bind } from "../../core/keys.js";
import { h } from "../../core/vdom.js";
import { problem, stateBadge } from "../basics.js";
import { attempt } from "../dialog.js";
import { look } from "./colours.js";
import { Lines, Rows } from "./lines.js";
import { Search, matcher, parts } from "./search.js";

const OUTPUT_ROW = 18; // px; also in output.css
const TALLEST = 720; // px of what is seen at once; also in output.css
const AROUND = 20; // rows above and below those that are seen
const TAIL = 8 * 1024 * 1024; // bytes before the end at which reading begins, and which it may be behind
const EARLIER = 4 * 1024 * 1024; // bytes that are loaded at once before those that are here
const SLICE_MS = 8; // of work before the browser may draw
const SEARCH_MS = 6;

/**
 * `.run`: the id; `.attempt`: a number, or null for the newest; `.newest`: the number of the newest, as far as it is known;
 * `.name`: of the file that is downloaded; `.over`: the run ended, so that a short output takes little room.
 */
export class Output extends View {
  run = "";
  attempt = null;
  newest = 0;
  name = "output";
  over = false;
  #key = "";
  #lines = new Lines();
  #rows = new Rows(this.#lines);
  #reading = null;
  #newest = 1; // attempt when reading began
  #ended = null; // what the event "end" said
  #error = null;
  #connected = false;
  #follows = true;
  #detached = false; // the end is not here: what was loaded before it took its place
  #busy = false;
  #filter = "";
  #wrap = true;
  #numbers = false;
  #query = "";
  #matcher = null;
  #search = null;
  #searched = true;
  #asked = null; // for a hit, before one was found: whether backwards
  #hit = null; // the line that was found
  #columns = 80;
  #since = 0; // when the slice of work began
  #resume = null; // called when there is room again

  connected() {
    const keys = {
      "/": ["search the output", () => this.querySelector("[type=search]")?.focus()],
      n: ["next hit", () => this.#go(false)],
      N: ["hit before", () => this.#go(true)],
      G: ["end of the output", () => this.#toEnd()],
      w: ["wrap lines", () => this.#set(() => (this.#wrap = !this.#wrap))],
    };
    bind(keys, this.signal);
    const sizes = new ResizeObserver(() => this.update());
    sizes.observe(this);
    this.signal.addEventListener("abort", () => sizes.disconnect());
  }

  disconnected() {
    this.#reading?.abort();
    this.#key = "";
  }

  /** Begins to read when what is to be read is another one. */
  #check() {
    const key = `${this.run} ${this.attempt ?? ""} ${this.#filter}`;
    // A node that hangs says no end of the attempt that was lost with it.
    const another = this.attempt === null && (this.#newest < this.newest || this.#ended?.attempt < this.newest);
    if (key !== this.#key || another) {
      this.#key = key;
      this.#begin();
    }
  }

  #begin() {
    this.#reading?.abort();
    this.#reading = new AbortController();
    this.#newest = Math.max(1, this.newest);
    this.#lines = new Lines();
    this.#rows = new Rows(this.#lines);
    this.#search = this.#matcher && new Search(this.#lines, this.#matcher);
    [this.#ended, this.#error, this.#hit, this.#detached, this.#follows] = [null, null, null, false, true];
    this.#read(this.#reading.signal, this.#lines);
  }

  async #read(signal, lines) {
    // One stream alone may be far apart in all that was printed: its end is looked for further back.
    const query = { follow: true, attempt: this.attempt, stream: this.#filter, tail_bytes: this.#filter ? 8 * TAIL : TAIL };
    const onState = (up) => this.#set(() => (this.#connected = up));
    const onEvent = (event) => this.#take(event, lines, signal);
    try {
      await stream(this.#path, { query, signal, onState, onEvent });
    } catch (error) {
      if (!signal.aborted) this.#error = error;
    }
    this.update();
  }

  get #path() {
    return `/v1/instances/${encodeURIComponent(this.run)}/output`;
  }

  async #take({ event, id, data }, lines, signal) {
    const said = JSON.parse(data);
    if (event === "problem") this.#error = said;
    else if (event === "end") this.#ended = said;
    else if (event === "message") lines.add(said, Number(id.split(".")[1]));
    this.update();
    if (performance.now() - this.#since > SLICE_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      this.#since = performance.now();
    }
    // What somebody reads is not taken away: more is taken when the end is shown again.
    while (!this.#follows && lines.dropped > 0 && !signal.aborted) {
      await new Promise((resolve) => {
        this.#resume = resolve;
        signal.addEventListener("abort", resolve, { once: true });
      });
    }
  }

  #set(change) {
    change();
    this.update();
  }

  // ------------------------------------------------------------ what is shown

  render() {
    this.#check();
    queueMicrotask(() => this.#place());
    return [this.#tools(), this.#problem(), this.#view(), this.#foot()];
  }

  #problem() {
    if (!this.#error) return null;
    const words = this.#error.code === "output-gone" ? { title: "Not kept", detail: this.#error.detail } : this.#error;
    return problem(words);
  }

  #tools() {
    const hits = this.#search?.found.length ?? 0;
    const count = this.#query ? `${plural(hits, "line")}${this.#searched ? "" : " …"}` : "";
    const toggle = (text, on, change, title) =>
      h("button", { type: "button", class: "small", "aria-pressed": String(on), title, onclick: () => this.#set(change) }, text);
    return h(
      "div",
      { class: "output-tools" },
      h(
        "select",
        { "aria-label": "Stream", value: this.#filter, onchange: (event) => this.#set(() => (this.#filter = event.target.value)) },
        h("option", { value: "" }, "stdout and stderr"),
        h("option", { value: "stdout" }, "stdout"),
        h("option", { value: "stderr" }, "stderr"),
      ),
      h(
        "div",
        { class: "output-search", role: "search" },
        h("input", {
          type: "search",
          placeholder: "Search",
          "aria-label": "Search the output",
          value: this.#query,
          oninput: (event) => this.#look(event.target.value),
          onkeydown: (event) => {
            if (event.key === "Enter") this.#go(event.shiftKey);
            else return;
            event.preventDefault();
          },
        }),
        h("button", { type: "button", class: "small", disabled: !hits, "aria-label": "Hit before", title: "Hit before (N)", onclick: () => this.#go(true) }, "↑"),
        h("button", { type: "button", class: "small", disabled: !hits, "aria-label": "Next hit", title: "Next hit (n)", onclick: () => this.#go(false) }, "↓"),
        h("span", { class: "muted", role: "status" }, count),
      ),
      h(
        "div",
        { class: "output-switches" },
        toggle("Wrap", this.#wrap, () => (this.#wrap = !this.#wrap), "Wrap lines (w)"),
        toggle("Numbers", this.#numbers, () => (this.#numbers = !this.#numbers), "Line numbers, where the beginning is here"),
        h("button", { type: "button", class: "small", disabled: this.#busy, onclick: () => this.#download() }, "Download"),
      ),
    );
  }

  #view() {
    const { list, dropped, start, widest } = this.#lines;
    const box = this.querySelector(".output-view");
    const gutter = this.#gutter();
    this.#columns = Math.max(20, Math.floor(((box?.clientWidth ?? 800) - this.#left(gutter) - 4) / this.#letter()));
    const gone = this.#rows.update(this.#wrap ? this.#columns : 0);
    if (box && gone && !this.#follows) box.scrollTop -= gone * OUTPUT_ROW;
    this.#lookOn();
    const { total } = this.#rows;
    const height = Math.max(box?.clientHeight ?? 0, TALLEST);
    const top = this.#follows ? Math.max(0, total * OUTPUT_ROW - height) : (box?.scrollTop ?? 0);
    const first = Math.max(0, Math.floor(top / OUTPUT_ROW) - AROUND);
    const last = Math.min(total, Math.ceil((top + height) / OUTPUT_ROW) + AROUND);
    const rows = [];
    for (let row = first; row < last; row++) {
      const [at, part] = this.#rows.at(row);
      rows.push(this.#row(list[at], at + dropped, part, gutter));
    }
    const wide = this.#wrap ? "100%" : `${this.#left(gutter) + Math.ceil(widest * this.#letter())}px`;
    return [
      start ? this.#earlier(start) : null,
      h(
        "div",
        {
          class: ["output-view", !total && "is-empty"],
          style: { "--lines": this.over ? `${(total + 2) * OUTPUT_ROW}px` : "100vh" },
          tabindex: "0",
          role: "region",
          "aria-label": "Output",
          key: "view",
          onscroll: (event) => this.#scrolled(event.currentTarget),
        },
        total ? null : this.#ended || this.#error ? "Nothing to show." : "Nothing was printed yet.",
        h(
          "div",
          { class: "output-space", style: { height: `${total * OUTPUT_ROW}px`, "min-width": wide } },
          h("div", { class: "output-rows", style: { transform: `translateY(${first * OUTPUT_ROW}px)` } }, rows),
        ),
      ),
      this.#follows || !total
        ? null
        : h("button", { type: "button", class: "output-end primary small", key: "end", onclick: () => this.#toEnd() }, "↓ Jump to the end"),
    ];
  }

  #row(line, at, part, gutter) {
    const from = part * this.#columns;
    const to = this.#wrap ? from + this.#columns : Infinity;
    const error = line.stream === "stderr";
    return h(
      "div",
      { key: `${at}.${part}`, class: ["output-row", error && "is-stderr", at === this.#hit && "is-hit"], title: error ? "stderr" : null },
      gutter ? h("span", { class: "output-number", "aria-hidden": "true", style: { width: `${gutter}ch` } }, part || line.joined || line.note ? "" : number(at + 1)) : null,
      h("span", { class: "output-mark", "aria-hidden": "true" }, error && !part ? "!" : ""),
      line.note
        ? h("span", { class: "output-note" }, `… ${bytes(line.note)} left out: more was printed than is kept, or than came through in time …`)
        : h("span", null, parts(line, from, to, this.#matcher).map(segment)),
    );
  }

  /** Returns the characters of a line number; 0: none are shown. */
  #gutter() {
    const { list, dropped, start } = this.#lines;
    const known = start === 0 || (start === null && dropped > 0 && this.#whole);
    if (start === 0) this.#whole = true;
    return this.#numbers && known ? Math.max(3, number(dropped + list.length).length) : 0;
  }

  #whole = false; // the beginning was here

  #left(gutter) {
    return 20 + (gutter ? (gutter + 1) * this.#letter() : 0);
  }

  #letter() {
    if (!this.#letterWidth) {
      const probe = document.createElement("span");
      probe.className = "output-probe";
      probe.textContent = "m".repeat(100);
      this.append(probe);
      this.#letterWidth = probe.getBoundingClientRect().width / 100 || 7.5;
      probe.remove();
    }
    return this.#letterWidth;
  }

  #letterWidth = 0;

  /** Returns the bytes before a place that are kept: what was left out in the middle is nowhere. */
  #kept(start) {
    const gap = this.#ended?.truncated ?? 0;
    return start > gap ? start - gap : start;
  }

  #earlier(start) {
    const kept = this.#kept(start);
    return h(
      "p",
      { class: "output-earlier", key: "earlier" },
      `${bytes(kept)} before this are not loaded. `,
      h("button", { type: "button", class: "small", disabled: this.#busy, onclick: () => this.#loadEarlier() }, `Load ${bytes(Math.min(kept, EARLIER))}`),
    );
  }

  #foot() {
    const { list, characters } = this.#lines;
    const ended = this.#ended;
    return h(
      "p",
      { class: "output-foot muted", role: "status" },
      ended
        ? ended.outcome
          ? [`Attempt ${ended.attempt}: `, stateBadge(ended.outcome.toUpperCase()), ended.exit_code === null ? "." : `, exit code ${ended.exit_code}.`]
          : "It ended without an attempt."
        : this.#error
          ? ""
          : this.#connected
            ? h("span", { class: "live" }, "live")
            : "connecting …",
      ended?.outcome === "lost" ? " Its node was lost, and with it what it had printed." : "",
      ended?.truncated ? ` ${bytes(ended.truncated)} in the middle were not kept (setting output_max_bytes).` : "",
      list.length ? ` ${plural(list.length, "line")}, ${bytes(characters)} here.` : ended && !this.#error && ended.outcome !== "lost" ? " It printed nothing." : "",
      this.#detached ? " The end is not loaded." : "",
      !this.#follows && this.#lines.dropped > 0 && !ended ? " Reading waits until you jump to the end." : "",
    );
  }

  // ------------------------------------------------------------ scrolling

  #place() {
    const box = this.querySelector(".output-view");
    if (box && this.#follows) box.scrollTop = box.scrollHeight;
  }

  #scrolled(box) {
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < OUTPUT_ROW;
    if (atEnd && !this.#detached) this.#followAgain();
    else this.#follows = false;
    this.update();
  }

  #followAgain() {
    this.#follows = true;
    this.#resume?.();
    this.#resume = null;
  }

  #toEnd() {
    if (this.#detached) this.#key = "";
    this.#followAgain();
    this.update();
  }

  async #loadEarlier() {
    const lines = this.#lines;
    const { start } = lines;
    const from = this.#kept(start) > EARLIER ? start - EARLIER : 0;
    const older = new Lines();
    this.#set(() => (this.#busy = true));
    const query = { attempt: this.attempt ?? this.#ended?.attempt, stream: this.#filter, offset: from, limit_bytes: start - from };
    await attempt(() =>
      stream(this.#path, {
        query,
        signal: this.#reading.signal,
        onEvent: ({ event, id, data }) => {
          if (event === "message") older.add(JSON.parse(data), Number(id.split(".")[1]));
          else if (event === "problem") throw Object.assign(new Error(), JSON.parse(data));
        },
      }),
    );
    this.#busy = false;
    if (lines === this.#lines && older.list.length) {
      this.#follows = false;
      older.start = from;
      if (lines.prepend(older)) {
        this.#detached = true;
        this.#reading.abort();
      }
      if (this.#matcher) this.#look(this.#query);
    }
    this.update();
  }

  // ------------------------------------------------------------ search and download

  #look(text) {
    this.#query = text;
    this.#matcher = matcher(text);
    this.#search = this.#matcher && new Search(this.#lines, this.#matcher);
    this.#hit = this.#asked = null;
    this.#searched = false;
    this.update();
  }

  #lookOn() {
    if (!this.#search) return;
    const before = this.#searched;
    this.#searched = this.#search.go(SEARCH_MS);
    if (this.#asked !== null) this.#go(this.#asked);
    if (!before || !this.#searched) queueMicrotask(() => this.update());
  }

  #go(backwards) {
    if (!this.#search) return;
    const { dropped, list } = this.#lines;
    const box = this.querySelector(".output-view");
    const seen = this.#rows.at(Math.floor(box.scrollTop / OUTPUT_ROW))[0] + dropped;
    const from = this.#hit ?? (backwards ? seen : seen - 1);
    const line = this.#search.next(from, backwards);
    this.#asked = line === null && !this.#searched ? backwards : null;
    if (line === null || line - dropped >= list.length) return;
    this.#hit = line;
    this.#follows = false;
    box.scrollTop = this.#rows.rowOf(line - dropped) * OUTPUT_ROW - box.clientHeight / 3;
    this.update();
  }

  async #download() {
    this.#set(() => (this.#busy = true));
    await attempt(async () => {
      const number = this.attempt ?? this.#ended?.attempt ?? (this.newest || null);
      const response = await fetchOpen(this.#path, { query: { attempt: number, stream: this.#filter } });
      const url = URL.createObjectURL(await response.blob());
      Object.assign(document.createElement("a"), { href: url, download: `${this.name}-${number ?? 1}.txt` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    });
    this.#set(() => (this.#busy = false));
  }
}

function segment({ text, style, hit }) {
  if (!style && !hit) return text;
  const looks = style ? look(style) : { class: [], style: {} };
  return h(hit ? "mark" : "span", { class: looks.class, style: hit ? {} : looks.style }, text);
}

define("rs-output", Output);
