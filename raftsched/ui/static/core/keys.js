/** Keyboard: single keys and pairs ("g j"), never while somebody types into a field. */

const PAIR_MS = 1_200;

const bindings = new Map(); // "g j" -> {run, help}
let first = "";
let timer = 0;

/**
 * Binds keys to functions until the signal aborts (or for good).
 *
 * @param {Object<string, [string, function]>} keys `{"/": ["search", fn]}`; the words are shown by "?"
 */
export function bind(keys, signal) {
  for (const [key, [help, run]] of Object.entries(keys)) {
    const before = bindings.get(key);
    const mine = { help, run };
    bindings.set(key, mine);
    signal?.addEventListener("abort", () => {
      if (bindings.get(key) !== mine) return;
      if (before) bindings.set(key, before);
      else bindings.delete(key);
    });
  }
}

/** Returns the keys that do something now, with their words: [["g j", "jobs"], ...]. */
export function bound() {
  return [...bindings].map(([key, { help }]) => [key, help]);
}

/** Listens to the keyboard from now on. */
export function startKeys() {
  document.addEventListener("keydown", pressed);
}

function pressed(event) {
  const { key } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) return leave(event);
  const pair = first ? `${first} ${key}` : "";
  const found = (pair && bindings.get(pair)) || bindings.get(key);
  clearTimeout(timer);
  const begins = !pair && [...bindings.keys()].some((name) => name.startsWith(`${key} `));
  first = begins ? key : "";
  if (begins) timer = setTimeout(() => (first = ""), PAIR_MS);
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

/** Leaves a field to search in, as it is, for what was found. */
function leave(event) {
  const { key, target } = event;
  if (target.type !== "search" || target.closest("dialog") || (key !== "Escape" && key !== "Enter")) return;
  event.preventDefault();
  target.blur();
}

function typing(target) {
  if (document.querySelector("dialog[open]")) return true; // it is about something else
  return Boolean(target.closest?.("input:not([type=checkbox],[type=radio]), textarea, select, [contenteditable]"));
}
