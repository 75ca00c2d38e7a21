/** The days of a calendar: which are excluded and by what, and what a change of one makes of the calendar. */

export const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
export const LISTS = ["dates", "ranges", "yearly", "weekdays"];
const DAY_MS = 86_400_000;

/** Returns a day moved by a number of days: ("2026-12-31", 1) is "2027-01-01". */
export function moved(day, by) {
  return new Date(Date.parse(day) + by * DAY_MS).toISOString().slice(0, 10);
}

/** Returns the weekday of a day, 0 for Monday. */
export function weekdayOf(day) {
  return (new Date(day).getUTCDay() + 6) % 7;
}

/** Returns a function that says of each day what excludes it: "date", "range", "yearly", "weekday" or null. */
export function exclusionOf({ dates = [], ranges = [], yearly = [], weekdays = [] }) {
  const once = new Set(dates);
  const each = new Set(yearly);
  const weekly = new Set(weekdays);
  return (day) => {
    if (once.has(day)) return "date";
    if (ranges.some(({ from, to }) => from <= day && day <= to)) return "range";
    if (each.has(day.slice(5))) return "yearly";
    return weekly.has(WEEKDAYS[weekdayOf(day)]) ? "weekday" : null;
  };
}

/**
 * Returns the changed lists of a calendar after a click on a day: an excluded day is let in, another one is excluded.
 *
 * @param {string|null} kind what excludes it now, but for its weekday
 * @param {string} mode "yearly": it is excluded every year, else once
 */
export function toggled({ dates, ranges, yearly }, day, kind, mode) {
  const date = day.slice(5);
  if (kind === "date") return { dates: dates.filter((one) => one !== day) };
  if (kind === "yearly") return { yearly: yearly.filter((one) => one !== date) };
  if (kind === "range") return without(dates, ranges, day);
  return mode === "yearly" ? { yearly: [...yearly, date].sort() } : { dates: [...dates, day].sort() };
}

/** Returns the changed lists with all days between two, both included, excluded. */
export function withRange({ dates, ranges }, one, other) {
  const [from, to] = [one, other].sort();
  if (from === to) return { dates: [...new Set([...dates, from])].sort() };
  return { ranges: [...ranges, { from, to }].sort((a, b) => (a.from + a.to < b.from + b.to ? -1 : 1)) };
}

/** Takes a day out of all ranges: of one there may be two left, or single days. */
function without(dates, ranges, day) {
  const parts = ranges.flatMap((range) =>
    range.from <= day && day <= range.to ? [{ from: range.from, to: moved(day, -1) }, { from: moved(day, 1), to: range.to }] : [range],
  );
  const single = parts.filter(({ from, to }) => from === to && !ranges.some((one) => one.from === from && one.to === to));
  return { dates: [...new Set([...dates, ...single.map(({ from }) => from)])].sort(), ranges: parts.filter((part) => part.from <= part.to && !single.includes(part)) };
}

/** Returns the months of a year as weeks of days, null before its first and after its last: [[["2027-01-01", ...]]]. */
export function monthsOf(year) {
  return Array.from({ length: 12 }, (_, month) => {
    const first = `${year}-${String(month + 1).padStart(2, "0")}-01`;
    const count = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    const days = [...Array(weekdayOf(first)).fill(null), ...Array.from({ length: count }, (_, at) => moved(first, at))];
    return Array.from({ length: Math.ceil(days.length / 7) }, (_, week) => [...days.slice(7 * week, 7 * week + 7)]);
  });
}
