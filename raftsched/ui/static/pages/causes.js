/** Dead letters by their causes. */

import { tellingLine } from "../core/errors.js";

const CAUSE_WORDS = [
  [/[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/gi, "#"],
  [/\b(?:0x)?(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/gi, "#"],
  [/\d+/g, "#"],
];

/** Returns what letters of one cause have in common: numbers and ids in the words of an error differ from run to run. */
export function causeOf(letter) {
  let words = tellingLine(letter.error).slice(0, 300);
  for (const [found, instead] of CAUSE_WORDS) words = words.replace(found, instead);
  return JSON.stringify([letter.job_id, letter.state, letter.reason, letter.exit_code, words]);
}

/**
 * Returns `[{key, letters, sample, first, last}, ...]`, the largest first. `sample` is the newest letter; first and last are
 * times of the API. The letters come with the newest first.
 */
export function byCause(letters) {
  const groups = new Map();
  for (const letter of letters) {
    const key = (letter.cause ??= causeOf(letter));
    const group = groups.get(key);
    if (group) group.letters.push(letter);
    else groups.set(key, { key, letters: [letter] });
  }
  const made = [...groups.values()];
  for (const group of made) {
    const times = group.letters.map((one) => one.dead_since);
    group.sample = group.letters[0];
    group.last = times.reduce((a, b) => (a > b ? a : b));
    group.first = times.reduce((a, b) => (a < b ? a : b));
  }
  return made.sort((a, b) => b.letters.length - a.letters.length || (a.last < b.last ? 1 : -1));
}
