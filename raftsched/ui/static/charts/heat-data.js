/** Counts of runs over time, as the heat strip takes them: what the cluster says, put together and made coarser. */

import { DAY_MS } from "../core/format.js";

const MINUTES = { "1m": 1, "5m": 5, "15m": 15, "1h": 60 };
const HIGHEST = "late_max_ms"; // of steps that are put together the largest counts; all others add up

/** Returns counts as `/v1/stats/minutes` gives them as `{from, step, counts: {name: number[]}}`, times in ms. */
export function countsOf({ from, to, step, ...counts }) {
  return { from: Date.parse(from), step: MINUTES[step] * 60_000, counts };
}

/** Returns the last day of counts, of which `recent` has the newest steps; both have the same step. */
export function lastDay(whole, recent) {
  const { step } = whole;
  const end = Math.max(endOf(whole), recent ? endOf(recent) : 0);
  const from = end - DAY_MS;
  const counts = {};
  for (const name in whole.counts) {
    const values = new Array(DAY_MS / step).fill(0);
    for (const part of recent ? [whole, recent] : [whole]) {
      part.counts[name].forEach((value, at) => {
        const place = (part.from - from) / step + at;
        if (place >= 0) values[place] = value;
      });
    }
    counts[name] = values;
  }
  return { from, step, counts };
}

/** Returns the counts in steps that are so many times as long. */
export function coarser(day, times) {
  const counts = {};
  for (const name in day.counts) {
    const add = name === HIGHEST ? Math.max : (a, b) => a + b;
    counts[name] = [];
    day.counts[name].forEach((value, at) => {
      const place = Math.floor(at / times);
      counts[name][place] = add(counts[name][place] ?? 0, value);
    });
  }
  return { from: day.from, step: day.step * times, counts };
}

/** Returns each count added up over the last steps. */
export function totals(day, steps = Infinity) {
  const found = {};
  for (const name in day.counts) {
    const values = day.counts[name].slice(-Math.min(steps, day.counts[name].length));
    found[name] = name === HIGHEST ? Math.max(0, ...values) : values.reduce((sum, value) => sum + value, 0);
  }
  return found;
}

/** Returns how dark a count is shown, 0 (none) to 5, where `most` is the darkest; small counts are told apart. */
export function levelOf(count, most) {
  return count ? Math.ceil(5 * Math.sqrt(count / most)) : 0;
}

function endOf({ from, step, counts }) {
  return from + step * counts.started.length;
}
