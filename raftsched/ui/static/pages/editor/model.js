/** A job as it is edited: its values by path, what changed of it, and the places of a JSON text. */

/** Returns the value at a path (a list of names), undefined where there is none. */
export function valueAt(value, path) {
  return path.reduce((inner, name) => (isObject(inner) || Array.isArray(inner) ? inner[name] : undefined), value);
}

/** Returns a copy with another value at a path; undefined takes it out, with the objects that would be left empty. */
export function withValue(value, path, given) {
  if (!path.length) return given;
  const [name, ...rest] = path;
  const inner = withValue(value?.[name], rest, given);
  if (Array.isArray(value)) return value.with(name, inner);
  const copy = { ...(isObject(value) ? value : {}) };
  if (inner === undefined) delete copy[name];
  else copy[name] = inner;
  return Object.keys(copy).length ? copy : undefined;
}

/** Returns whether two JSON values are the same, whatever the order of their fields. */
export function same(a, b) {
  return a === b || JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}

// A job has one trigger and one handler: merging would leave two of them, so the API replaces them whole.
const WHOLE_FIELDS = ["trigger", "handler"];

/** Returns the merge patch (RFC 7396) that makes one job of another; {} when they are the same. */
export function patchOf(before, after) {
  const patch = differing(before, after);
  for (const name of WHOLE_FIELDS) if (isObject(patch[name])) patch[name] = after[name];
  return patch;
}

function differing(before, after) {
  const patch = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[name], after[name]];
    if (same(was, is)) continue;
    if (is === undefined) patch[name] = null;
    else patch[name] = isObject(was) && isObject(is) ? differing(was, is) : is;
  }
  return patch;
}

/** Returns a job with a merge patch in it. */
export function patched(job, patch) {
  const copy = { ...job };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete copy[name];
    else if (isObject(value) && isObject(copy[name]) && !WHOLE_FIELDS.includes(name))
      copy[name] = patched(copy[name], value);
    else copy[name] = value;
  }
  return copy;
}

/** Returns the names of a JSON pointer: "/a/b~1c" is ["a", "b/c"]. */
export function namesOf(pointer) {
  return pointer
    .split("/")
    .slice(1)
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/**
 * Returns where a pointer leads to in a JSON text: `{start, end, line}`, lines from 1; as deep as there is something.
 * The text is known to be JSON.
 */
export function placeOf(text, pointer) {
  let at = 0;
  let found = { start: 0, end: text.length };
  const space = () => (at += /^\s*/.exec(text.slice(at, at + 10_000))[0].length);
  const string = () => {
    const start = at++;
    while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    return JSON.parse(text.slice(start, ++at));
  };
  const read = (wanted) => {
    space();
    const start = at;
    if (text[at] === '"') string();
    else if (text[at] === "{" || text[at] === "[") readInside(text[at] === "{", wanted);
    else at += /^[^,\]}\s]*/.exec(text.slice(at, at + 100))[0].length;
    if (wanted && !(found.left <= wanted.length)) found = { start, end: at, left: wanted.length };
  };
  const readInside = (named, wanted) => {
    at += 1;
    for (let count = 0; space(), text[at] !== "}" && text[at] !== "]"; count++) {
      const name = named ? string() : String(count);
      if (named) {
        space();
        at += 1; // the colon
      }
      read(wanted?.[0] === name ? wanted.slice(1) : undefined);
      space();
      if (text[at] === ",") at += 1;
    }
    at += 1; // the bracket
  };
  read(namesOf(pointer));
  return { start: found.start, end: found.end, line: text.slice(0, found.start).split("\n").length };
}

/** Returns the jobs of a text, `{jobs, many}`: one, a list, or one in each line. Throws SyntaxError. */
export function jobsOf(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? { jobs: value, many: true } : { jobs: [value], many: false };
  } catch (error) {
    const lines = text.split("\n").filter((line) => line.trim());
    if (lines.length < 2 || !lines.every((line) => line.trim().startsWith("{"))) throw error;
    try {
      return { jobs: lines.map((line) => JSON.parse(line)), many: true };
    } catch {
      throw error; // it was no list of lines
    }
  }
}

/**
 * Returns a text as one word of a shell. A terminal that is pasted into acts on control characters, such as the one that
 * discards the line before it: these are escaped.
 */
export function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (!/[\0-\x09\x0b-\x1f\x7f-\x9f]/.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = (sign) => `${sign > "\x7f" ? "\\xc2" : ""}\\x${sign.charCodeAt().toString(16).padStart(2, "0")}`;
  return `$'${text.replace(/[\0-\x1f!'\\\x7f-\x9f]/g, escaped)}'`;
}

/** Returns the curl line of a request. `token`: requests need one, which stays a variable. */
export function curlLine(method, url, body, { token = false, headers = {} } = {}) {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const parts = [`curl -X ${method} ${quoted(url)}`, `-H 'Content-Type: ${type}'`];
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (token) parts.push('-H "Authorization: Bearer $TOKEN"');
  parts.push(`-d ${quoted(JSON.stringify(body))}`);
  return parts.join(" \\\n  ");
}

/** Returns a line of the command line that is given the JSON of a job. */
export function cliLine(server, words, body, { token = false } = {}) {
  const command = `${token ? 'RAFTSCHED_TOKEN="$TOKEN" ' : ""}raftsched --server ${quoted(server)} ${words}`;
  return body === undefined ? command : `${command} <<'JSON'\n${JSON.stringify(body, null, 2)}\nJSON`;
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
