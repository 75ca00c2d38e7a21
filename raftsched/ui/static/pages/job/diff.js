/** What differs between two JSON values, field by field, and between two texts, line by line. */

import { isObject, same } from "../editor/model.js";

const DIFF_LINES_MAX = 400; // of a text; longer ones are shown whole

/**
 * Returns the differences, in the order of the fields: `{path, kind, before, after}`. Kinds: "added", "removed",
 * "changed". A path is "retry.delays[0]".
 */
export function diff(before, after, path = "") {
  if (same(before, after)) return [];
  if (before === undefined) return [{ path, kind: "added", before, after }];
  if (after === undefined) return [{ path, kind: "removed", before, after }];
  const lists = Array.isArray(before) && Array.isArray(after);
  if (!lists && !(isObject(before) && isObject(after))) return [{ path, kind: "changed", before, after }];
  if (lists) {
    const keys = [...Array(Math.max(before.length, after.length)).keys()];
    return keys.flatMap((key) => diff(before[key], after[key], `${path}[${key}]`));
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => diff(before[key], after[key], step(path, key)));
}

/** Returns the lines of two texts: `{kind, text}`, kinds "same", "added", "removed". */
export function lines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  if (a.length > DIFF_LINES_MAX || b.length > DIFF_LINES_MAX)
    return [...a.map(kind("removed")), ...b.map(kind("added"))];
  // longest[i][j]: lines that a[i..] and b[j..] share, in order
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(kind("same")(a[i++]));
      j++;
    } else if (j === b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) {
      found.push(kind("removed")(a[i++]));
    } else {
      found.push(kind("added")(b[j++]));
    }
  }
  return found;
}

function kind(name) {
  return (text) => ({ kind: name, text });
}

function step(path, key) {
  if (!/^[\w$-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path ? `${path}.${key}` : key;
}
