/** Months in a time zone. */

/** Returns the month of a moment in a zone: "2026-11". */
export function monthOf(at, zone) {
  return dateOf(at, zone).slice(0, 7);
}

/** Returns the date of a moment in a zone: "2026-11-23". */
export function dateOf(at, zone) {
  return new Intl.DateTimeFormat("sv-SE", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" }).format(
    at,
  );
}

/** Returns the month so many months after another: ("2026-11", 2) is "2027-01". */
export function monthAfter(month, by) {
  const [year, number] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + by, 1)).toISOString().slice(0, 7);
}

/** Returns when a month begins in a zone, in ms since the epoch. */
export function startOfMonth(month, zone) {
  const wall = Date.parse(`${month}-01T00:00:00Z`);
  let at = wall;
  for (let turn = 0; turn < 3; turn++) at = wall - offset(at, zone);
  return at;
}

function offset(at, zone) {
  const options = {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  };
  const text = new Intl.DateTimeFormat("sv-SE", options).format(at);
  return Date.parse(`${text.replace(" ", "T")}Z`) - Math.floor(at / 1000) * 1000;
}
