/** What the API says of a job that is being edited: checked when nothing was typed for a moment. */

import { triggerZone, whenOf } from "../../components/trigger-text.js";
import { post } from "../../core/api.js";
import { viewerZone } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { isObject } from "./model.js";
import { knowsZone, timesTable } from "./times.js";

const PAUSE_MS = 350; // after the last key
const AGAIN_MS = 2_000; // where no node answered
const TIMES = 5;

export class Checker {
  errors = []; // by pointer
  checked = null; // what the API would make of it
  times = null; // the trigger in words and times, also where the rest is wrong
  #timer = 0;
  #asking = null;
  #told;

  /** `told`: called after each check. */
  constructor(told) {
    this.#told = told;
  }

  stop() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  /** Checks soon. `wanted` returns `{path, body, value}`, or null; without a path the trigger alone is looked at. */
  soon(wanted, wait = PAUSE_MS) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(wanted), wait);
  }

  /** Returns the trigger in words and its next times, while nothing is wrong with it. */
  live(job) {
    const known = this.times;
    if (!known || this.errors.some((one) => one.pointer.startsWith("/trigger"))) return null;
    const zone = triggerZone(job);
    const zones = [...new Set([knowsZone(zone) ? zone : "UTC", viewerZone()])];
    return h(
      "div",
      { class: "trigger-live", "aria-live": "polite" },
      h("p", { class: "words" }, known.description),
      known.next.length ? timesTable(known.next.slice(0, TIMES), zones) : null,
    );
  }

  async #check(wanted) {
    this.#asking?.abort();
    const mine = (this.#asking = new AbortController());
    const given = wanted();
    if (!given) return;
    const options = { signal: mine.signal };
    let [errors, checked, times] = [[], null, null];
    try {
      if (given.path) checked = await post(given.path, given.body, options);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.name === "Unreachable") {
        this.soon(wanted, AGAIN_MS);
        return;
      }
      const pointer = error.code === "name-taken" || error.code === "exists" ? "/name" : "";
      errors = error.errors?.length ? error.errors : [{ pointer, detail: error.detail || error.message }];
    }
    const { trigger, triggers } = given.value;
    if (!checked && (isObject(trigger) || triggers?.length) && !errors.some((one) => one.pointer.startsWith("/trigger"))) {
      times = await post("/v1/schedules/preview", { ...whenOf(given.value), count: TIMES }, options).catch(() => null);
    }
    if (mine.signal.aborted) return;
    [this.errors, this.checked, this.times] = [errors, checked, checked ?? times];
    this.#told();
  }
}
