/** Numbers, sizes and times as text. */

export const DAY_MS = 86_400_000;
const NUMBER = new Intl.NumberFormat("en-US");
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];
const SIZES = ["B", "kB", "MB", "GB", "TB"];
const NONE = "–";

/** Returns a number with its thousands apart; a dash for none. */
export function number(value) {
  return value === null || value === undefined ? NONE : NUMBER.format(value);
}

/** Returns a number of things: "1 job", "2 jobs". */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// What the page calls otherwise than the API.
const STATES = { EXPIRED: "finished", LAUNCHED: "starting" };

/** Returns a state, an outcome or a reason in words: "timed out". */
export function stateWords(state) {
  return STATES[state] ?? (state ?? "").toLowerCase().replaceAll("_", " ");
}

/** Returns a part of 1 in percent. */
export function percent(part) {
  return Number.isFinite(part) ? `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %` : NONE;
}

/** Returns a number of bytes in units of 1000. */
export function bytes(count) {
  if (count === null || count === undefined) return NONE;
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)));
  const value = count / 1000 ** power;
  return `${power && value < 10 ? value.toFixed(1) : Math.round(value)} ${SIZES[power]}`;
}

/** Returns a length of time given in ms: "12 ms", "3.4 s", "5 min 2 s", "3 h 12 min", "2 d 4 h". */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return NONE;
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86_400) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return pair(Math.floor(s / 86_400), "d", Math.floor((s % 86_400) / 3600), "h");
}

function pair(a, unitA, b, unitB) {
  return b ? `${a} ${unitA} ${b} ${unitB}` : `${a} ${unitA}`;
}

/** Returns a moment relative to now: "3 min ago", "in 2 hr". Both in ms since the epoch. */
export function ago(at, now = Date.now()) {
  const away = at - now;
  for (const [unit, ms] of UNITS) {
    if (Math.abs(away) >= ms) return RELATIVE.format(Math.trunc(away / ms), unit);
  }
  return away > 0 ? "in a moment" : "just now";
}

// Escape sequences of terminals (ECMA-48: CSI, OSC, single ones), and other control characters than tab and newline.
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\0-\x08\x0b-\x1f\x7f]/g;

/** Returns what a program printed without what it said to a terminal. */
export function plain(text) {
  return text.replace(ESCAPES, "");
}

const formats = new Map();

/** Returns a text of the API with its times as those of the viewer, as all others on the page are. */
export function localTimes(text) {
  return text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) => absolute(moment(iso)));
}

/** Returns a moment as "2026-11-23 14:05:09", in a zone or the viewer's own. */
export function absolute(at, zone, { seconds = true, millis = false, zoneName = false } = {}) {
  if (at === null || at === undefined || Number.isNaN(at)) return NONE;
  const key = `${zone}|${seconds}|${millis}|${zoneName}`;
  let format = formats.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("sv-SE", {
      timeZone: zone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: seconds ? "2-digit" : undefined,
      fractionalSecondDigits: millis ? 3 : undefined,
      timeZoneName: zoneName ? "short" : undefined,
    });
    formats.set(key, format);
  }
  return format.format(at).replace(",", ".");
}

/** Returns ms since the epoch of a time as the API gives it; null for none. */
export function moment(iso) {
  return iso ? Date.parse(iso) : null;
}

/** Returns the zone of the viewer: "Europe/Madrid". */
export function viewerZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Returns ms that a run, or an attempt, took, or takes up to now; null: it never started. */
export function tookOf({ started_at: started, ended_at: ended }, now = Date.now()) {
  return started ? Math.max(0, (moment(ended) ?? now) - moment(started)) : null;
}

/** Returns what a run, or an attempt, was given to: a node by its id, or a remote worker. */
export function executorOf({ node, worker }) {
  return node ?? (worker ? `worker ${worker}` : NONE);
}
