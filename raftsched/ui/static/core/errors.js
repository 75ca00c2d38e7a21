/** Errors of runs in one line, as raftsched/error_texts.py has it. */

import { plain } from "./format.js";

const TRACEBACK = "Traceback (most recent call last):";
const GROUP = `  + Exception Group ${TRACEBACK}`;
const PROCESS_END = /(?:^|: )(?:exit code \d+|killed by SIG\w+)$/;

/** Returns the line of an error that says what happened; "" for an error without words. */
export function tellingLine(error) {
  const lines = plain(error ?? "")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter(Boolean);
  const first = lines[0] ?? "";
  if (first === GROUP) return raisedGroup(lines) ?? first.trim();
  if (first.endsWith(TRACEBACK)) return first.slice(0, -TRACEBACK.length) + (raised(lines) ?? TRACEBACK);
  if (lines.length > 1 && PROCESS_END.test(first)) return `${first}: ${raised(lines) ?? lines.at(-1).trim()}`;
  return first.trim();
}

function raised(lines) {
  const last = lines.findLastIndex((line) => line.startsWith('  File "'));
  const below = last < 0 ? [] : lines.slice(last + 1);
  const place = below.findIndex((line) => !/^\s/.test(line));
  const message = below[place]?.endsWith(":") ? (below[place + 1] ?? "").trim() : "";
  return message ? `${below[place]} ${message}` : below[place];
}

function raisedGroup(lines) {
  const own = lines.filter((line) => line.startsWith("  | ")).map((line) => line.slice(4));
  return own.find((line) => /^\S/.test(line));
}
