/** Requests to the cluster: with the token, at a node that answers, and errors in the API's own words. */

import { health } from "./health.js";
import { makeEventParser } from "./event-parser.js";

const TRY_MS = 10_000; // for one answer to what changes something, which may wait for a majority,
const READ_MS = 5_000; // and to what only reads
const LIVE_MS = 3_000; // and to whether a node lives
const PATIENCE_MS = 15_000; // for a request as a whole, over all nodes
const RETRY_MS = 250;
const SILENCE_MS = 35_000; // a stream sends something every 15 s
const LAST = new Set(["end", "more", "problem"]); // events after which a stream is over
// Answers that another try may better: no leader at the moment, an outcome that is not known, too much at once.
const AGAIN = new Set([502, 503, 504]);

let token = null;
let unauthorized = () => {};

/** Sets the token of all later requests; null: none. */
export function setToken(value) {
  token = value;
}

/** Sets the function that is called when the token is refused. */
export function onUnauthorized(listener) {
  unauthorized = listener;
}

/** An answer that refuses (RFC 9457): `status`, `code`, `title`, `detail`, and `errors` with the place of each. */
export class ApiProblem extends Error {
  constructor(status, body, headers) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.name = "ApiProblem";
    this.status = status;
    this.code =
      body.code ??
      String(body.type ?? "")
        .split(/[:/#]/)
        .pop();
    this.title = body.title ?? `HTTP ${status}`;
    this.detail = body.detail ?? "";
    this.errors = body.errors ?? [];
    this.body = body;
    this.headers = headers;
  }
}

/** No node answered. */
export class Unreachable extends Error {
  constructor() {
    super("No node of the cluster answers. The page tries again by itself.");
    this.name = "Unreachable";
    this.title = "No connection";
  }
}

/**
 * Returns the answer of a node: `{data, headers, status, index, stale}`.
 *
 * A node that does not answer is left for the next one. That is safe for what changes something, too: a POST carries an
 * Idempotency-Key, and everything else may be sent again.
 *
 * @throws {ApiProblem|Unreachable}
 */
export async function request(method, path, { body, query, headers, signal, idempotency, parse = "json" } = {}) {
  const sent = { Accept: "application/json, application/problem+json", ...headers };
  if (body !== undefined)
    sent["Content-Type"] ??= method === "PATCH" ? "application/merge-patch+json" : "application/json";
  if (method === "POST") sent["Idempotency-Key"] = idempotency ?? randomKey();
  const payload = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const until = performance.now() + PATIENCE_MS;
  for (let tries = 1; ; tries++) {
    const node = health.node;
    let failure;
    const shown = token;
    const limit = method === "GET" ? READ_MS : TRY_MS;
    try {
      const options = { method, headers: withToken(sent), body: payload };
      const response = await fetchFrom(node, path, query, options, signal, limit);
      const answer = await read(response, parse);
      if (response.status === 400 && query?.fields && answer?.errors?.some(({ parameter }) => parameter === "fields")) {
        query = { ...query, fields: null }; // a node of an older version, which knows fewer: all of them
        continue;
      }
      if (response.ok || !AGAIN.has(response.status)) return finish(response, answer, shown);
      failure = new ApiProblem(response.status, answer ?? {}, response.headers);
    } catch (error) {
      if (signal?.aborted || error instanceof ApiProblem) throw error;
      failure = new Unreachable();
    }
    health.leave(node);
    if (performance.now() > until || (failure instanceof Unreachable && tries >= 2 * health.nodes.length)) {
      if (failure instanceof Unreachable) health.set({ reachable: false });
      throw failure;
    }
    if (tries >= health.nodes.length) await pause(RETRY_MS * Math.min(tries, 8), signal);
  }
}

/** Returns what is at a path. */
export async function get(path, query, options) {
  return (await request("GET", path, { query, ...options })).data;
}

/** Returns the answer of a POST. `options.idempotency`: a key of one's own, to send the same again later. */
export async function post(path, body = {}, options) {
  return (await request("POST", path, { body, ...options })).data;
}

/** Returns the answer of a PUT. */
export async function put(path, body, options) {
  return (await request("PUT", path, { body, ...options })).data;
}

/** Returns the answer of a PATCH (a merge patch, RFC 7396). */
export async function patch(path, body, options) {
  return (await request("PATCH", path, { body, ...options })).data;
}

/** Returns the answer of a DELETE. */
export async function del(path, options) {
  return (await request("DELETE", path, options)).data;
}

/** Returns the lists of items of all pages, one after the other. */
export async function* pages(path, query = {}, { limit = 1000, signal } = {}) {
  let cursor;
  do {
    const { items, next } = await get(path, { ...query, limit, cursor }, { signal });
    yield items;
    cursor = next;
  } while (cursor);
}

/** Returns the response of one node as it comes, without reading it; for downloads. */
export async function fetchOpen(path, { query, headers, signal } = {}) {
  const shown = token;
  const response = await fetchFrom(
    health.node,
    path,
    query,
    { method: "GET", headers: withToken(headers) },
    signal,
    null,
  );
  if (!response.ok) finish(response, await read(response, "json"), shown);
  return response;
}

/**
 * Reads server-sent events until one is called "end", "more" or "problem", or the signal aborts.
 *
 * A connection that is lost is made again after the last id, at another node when its node does not answer.
 *
 * @param {(event: {id: string, event: string, data: string}) => any} options.onEvent its promise is awaited before more is
 *   read
 * @param {(up: boolean) => void} [options.onState] called when the connection is made or lost
 * @throws {ApiProblem} when the stream is refused
 */
export async function stream(path, { query, headers, signal, onEvent, onState }) {
  let last = headers?.["Last-Event-ID"];
  let unanswered = 0; // tries, one after the other
  for (let tries = 0; !signal?.aborted;) {
    const node = health.node;
    const quiet = new AbortController();
    const either = signal ? AbortSignal.any([signal, quiet.signal]) : quiet.signal;
    const left = () => health.node !== node && quiet.abort(); // it hangs: others noticed first
    const shown = token;
    let timer = setTimeout(() => quiet.abort(), READ_MS);
    health.addEventListener("change", left);
    try {
      const sent = withToken({ Accept: "text/event-stream", ...headers });
      if (last !== undefined) sent["Last-Event-ID"] = last;
      const response = await fetch(address(node, path, query), { headers: sent, signal: either, ...SAFE });
      if (!response.ok) {
        const answer = await read(response, "json");
        if (!AGAIN.has(response.status) && response.status !== 429) finish(response, answer, shown);
        throw new Unreachable();
      }
      note(response);
      tries = unanswered = 0;
      onState?.(true);
      let ended = false;
      const parse = makeEventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      while (!ended) {
        clearTimeout(timer);
        timer = setTimeout(() => quiet.abort(), SILENCE_MS);
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(timer); // the reader of the events may take its time
        for (const event of parse(value)) {
          if (event.id !== undefined) last = event.id;
          if (event.data !== "") await onEvent(event);
          ended ||= LAST.has(event.event);
        }
      }
      if (ended) {
        quiet.abort();
        return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof ApiProblem) throw error;
      unanswered = error instanceof Unreachable ? 0 : unanswered + 1;
      health.leave(node);
      if (unanswered >= 2 * health.nodes.length) health.set({ reachable: false });
    } finally {
      clearTimeout(timer);
      health.removeEventListener("change", left);
    }
    onState?.(false);
    tries += 1;
    await pause(RETRY_MS * Math.min(tries, 8), signal).catch(() => {});
  }
}

/** Goes back to the node that this page came from when that is ready again, and leaves a node that hangs. */
export async function lookAtNode(quietMs) {
  const { node } = health;
  const home = node === location.origin;
  if (home && Date.now() - health.since < quietMs) return; // it answered a moment ago
  const signal = AbortSignal.timeout(LIVE_MS);
  const response = await fetch(address(location.origin, home ? "/livez" : "/readyz"), { ...SAFE, signal }).catch(
    () => null,
  );
  if (!home && response?.ok) health.set({ node: location.origin });
  if (home && !response) health.leave(node);
  if (home && response) health.set({ since: Date.now() });
}

/** Returns a key that no other request has. */
export function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// No credentials but a client's certificate, at this page's own node where it asks for one.
const SAFE = { credentials: "same-origin", redirect: "error", cache: "no-store", referrerPolicy: "no-referrer" };

function address(node, path, query) {
  const url = new URL(path, node);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

function withToken(headers) {
  return token === null ? { ...headers } : { ...headers, Authorization: `Bearer ${token}` };
}

async function fetchFrom(node, path, query, options, signal, limit) {
  const signals = [signal, limit && AbortSignal.timeout(limit)].filter(Boolean);
  const response = await fetch(address(node, path, query), { ...options, ...SAFE, signal: AbortSignal.any(signals) });
  note(response);
  return response;
}

function note(response) {
  const leader = response.headers.get("Raftsched-Leader");
  const stale = response.headers.get("Raftsched-Stale") === "true";
  health.set({ reachable: true, leader: leader || null, stale, since: Date.now() });
}

async function read(response, parse) {
  if (parse !== "json") return response.ok ? response[parse]() : parsed(await response.text());
  return parsed(await response.text());
}

function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

function finish(response, data, shown) {
  if (!response.ok) {
    const problem = new ApiProblem(response.status, data ?? {}, response.headers);
    if (response.status === 401 && shown === token) unauthorized(problem); // not of a token that was left meanwhile
    throw problem;
  }
  const { headers, status } = response;
  return {
    data,
    headers,
    status,
    index: Number(headers.get("Raftsched-Index")),
    stale: headers.has("Raftsched-Stale"),
  };
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
