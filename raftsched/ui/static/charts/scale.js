/** Axes: round numbers of time between two ends, and places on a linear or logarithmic scale. */

import { duration } from "../core/format.js";

const ROUND = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const LONGER = [1, 2, 5, 10, 15, 30].flatMap((n) => [n * 1_000, n * 60_000]);
const HOURS = [1, 2, 3, 6, 12, 24, 48, 7 * 24, 30 * 24, 90 * 24, 365 * 24].map((n) => n * 3_600_000);
const STEPS = [...ROUND, ...LONGER, ...HOURS].sort((a, b) => a - b);
const WIDE = 60; // the largest is so many times the median: what is small could not be seen on a linear scale

/** Returns the value below which a part of the values lies (nearest rank); null for none. */
export function percentile(values, part) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
}

/** Returns a round step of time, so that `span` ms have at most `most` of them. */
export function stepOf(span, most) {
  return STEPS.find((step) => span / step <= most) ?? STEPS.at(-1);
}

/** Returns `{at(ms) -> 0..1, ticks: ms[], log}` of lengths of time from 0 up to the largest of the values. */
export function lengthScale(values, most = 4) {
  const max = Math.max(1, ...values);
  const middle = Math.max(
    1,
    percentile(
      values.filter((value) => value > 0),
      0.5,
    ) ?? 1,
  );
  const step = stepOf(max, most);
  const linear = [];
  for (let tick = 0; tick <= max; tick += step) linear.push(tick);
  if (max / middle < WIDE) return { at: (ms) => Math.max(0, ms) / max, ticks: linear, log: false };
  // log(1 + x) is straight where x is small, and has a 0.
  const unit = middle / 4;
  const whole = Math.log1p(max / unit);
  const at = (ms) => Math.log1p(Math.max(0, ms) / unit) / whole;
  const ticks = [0];
  for (const tick of STEPS) {
    if (tick <= max && at(tick) - at(ticks.at(-1)) >= 0.8 / most) ticks.push(tick);
  }
  return { at, ticks, log: true };
}

/** Returns `{at(ms) -> 0..1, ticks: ms[], step}` of moments between two. */
export function momentScale(from, to, most = 4) {
  const span = Math.max(1, to - from);
  const step = stepOf(span, most);
  const shift = new Date(to).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let tick = Math.ceil((from - shift) / step) * step + shift; tick <= to; tick += step) ticks.push(tick);
  return { at: (ms) => (ms - from) / span, ticks, step };
}

/** Returns a moment as short as the step of its axis lets it be, in the viewer's zone. */
export function tickText(at, step) {
  const options =
    step >= 86_400_000
      ? { day: "numeric", month: "short" }
      : { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(step < 60_000 ? { second: "2-digit" } : {}) };
  if (step < 1_000) options.fractionalSecondDigits = 3;
  return new Intl.DateTimeFormat("en-GB", options).format(at);
}

/** Returns a length of time as a label of an axis. */
export function lengthText(ms) {
  return ms === 0 ? "0" : duration(ms).replace(/\.0 s$/, " s");
}

/** Returns on which side of its place a label stands, so that it stays within the axis: a text-anchor of SVG. */
export function anchor(part) {
  if (part < 0.05) return "start";
  return part > 0.93 ? "end" : "middle";
}
