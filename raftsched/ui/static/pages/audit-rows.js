/** Records of the audit without a page: their filters, their order, and where they lead. */

/** Name in the address and in the API, its words, and the type of its input or its choices. */
export const FILTERS = [
  ["actor", "Who", "search"],
  ["operation", "Operation", "search"],
  ["resource", "Object", "search"],
  ["namespace", "Namespace", "search"],
  [
    "kind",
    "Kind",
    [
      ["", "all"],
      ["change", "changes"],
      ["job", "changes of jobs"],
      ["secret", "changes of secrets"],
      ["work", "work handed in"],
    ],
  ],
  ["from", "From", "datetime-local"],
  ["to", "Until", "datetime-local"],
  [
    "order",
    "Order",
    [
      ["", "newest first"],
      ["oldest", "oldest first"],
    ],
  ],
];

/** Returns the filters of an address as the API takes them. */
export function filterQuery(query) {
  return Object.fromEntries(FILTERS.map(([name]) => [name, query.get(name)]).filter(([, value]) => value));
}

/** Returns two lists of records as one, without repeats. */
export function merge(first, second) {
  const found = new Map();
  for (const row of [...first, ...second]) found.set(`${row.kind} ${row.index} ${row.position}`, row);
  return [...found.values()];
}

/** Returns the page of what a record is about, or "". */
export function linkOf({ subject, operation }) {
  if (!subject) return "";
  if (subject.includes("@")) return `/ui/runs/${encodeURIComponent(subject)}`;
  const isOfJob = /^(jobs|actions|backfill)_/.test(operation);
  return isOfJob && !operation.startsWith("jobs_delete") ? `/ui/jobs/${encodeURIComponent(subject)}` : "";
}

/** Returns a time of the API as an input takes it, in the viewer's zone. */
export function toLocal(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Returns what an input holds as a time of the API; "" for none. */
export function fromLocal(text) {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}
