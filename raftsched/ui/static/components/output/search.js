/** Finding words in lines, and the parts of a row with their styles and hits. */

const VOLATILE = 64; // lines at the end that may still change

/** Returns what finds a text: without regard to case unless the text has capital letters. null for nothing. */
export function matcher(text) {
  if (!text) return null;
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(escaped, text === text.toLowerCase() ? "gi" : "g");
}

/** The lines that have what is looked for, found a part at a time: numbers that stay when lines are dropped. */
export class Search {
  found = [];
  #lines;
  #matcher;
  #settled = 0; // how many of `found` are of lines that do not change any more
  #from; // the next line to look at

  constructor(lines, found) {
    this.#lines = lines;
    this.#matcher = found;
    this.#from = lines.dropped;
  }

  /** Looks on for so many ms. Returns whether all was looked at. */
  go(budget) {
    const { list, dropped } = this.#lines;
    const until = performance.now() + budget;
    this.found.length = this.#settled;
    let gone = 0;
    while (this.found[gone] < dropped) gone += 1;
    this.found.splice(0, gone);
    this.#settled = this.found.length;
    const from = Math.max(this.#from, dropped);
    const settled = list.length + dropped - VOLATILE;
    for (let at = from; at < list.length + dropped; at++) {
      if (at <= settled) [this.#from, this.#settled] = [at, this.found.length];
      if ((at & 1023) === 1023 && performance.now() > until) return false;
      this.#matcher.lastIndex = 0;
      if (this.#matcher.test(list[at - dropped].text)) this.found.push(at);
    }
    this.#settled = Math.min(this.#settled, this.found.length);
    return true;
  }

  /** Returns the line with a hit after (or before) a line, around the ends; null when there is none. */
  next(line, backwards) {
    if (!this.found.length) return null;
    if (backwards) return this.found.findLast((one) => one < line) ?? this.found.at(-1);
    return this.found.find((one) => one > line) ?? this.found[0];
  }
}

/** Returns the parts of a line between two places: [{text, style, hit}, ...]. */
export function parts({ text, marks }, from, to, found) {
  const cuts = new Map([[from, {}]]); // place -> what begins there
  const end = Math.min(to, text.length);
  let style = null;
  for (let i = 0; i < (marks?.length ?? 0); i += 2) {
    if (marks[i] <= from) style = marks[i + 1];
    else if (marks[i] < end) cuts.set(marks[i], { style: marks[i + 1] });
  }
  cuts.get(from).style = style;
  if (found) {
    found.lastIndex = 0;
    for (let hit = found.exec(text); hit && hit.index < end; hit = found.exec(text)) {
      const stop = hit.index + hit[0].length;
      if (stop <= from) continue;
      const start = Math.max(hit.index, from);
      cuts.set(start, { ...cuts.get(start), hit: true });
      if (stop < end) cuts.set(stop, { ...cuts.get(stop), hit: false });
    }
  }
  const made = [];
  const places = [...cuts.keys()].sort((a, b) => a - b);
  let now = { style: null, hit: false };
  for (let i = 0; i < places.length; i++) {
    now = { ...now, ...cuts.get(places[i]) };
    const part = text.slice(places[i], places[i + 1] ?? end);
    if (part) made.push({ text: part, ...now });
  }
  return made;
}
