/** Views and pages: custom elements that show descriptions, and read what they show through the store. */

import { render } from "./vdom.js";
import { watch } from "./store.js";
import { replaceQuery } from "./router.js";

/** Registers a custom element; a second time does nothing. */
export function define(name, made) {
  if (!customElements.get(name)) customElements.define(name, made);
  return made;
}

/** An element whose children are what `render()` returns. */
export class View extends HTMLElement {
  #frame = 0;
  #abort = new AbortController();
  #watched = new Map(); // path -> {resource, stop, pinned}
  #used = null; // paths asked for in the rendering that goes on

  /** Aborted when the element leaves the document. */
  get signal() {
    return this.#abort.signal;
  }

  connectedCallback() {
    if (this.#abort.signal.aborted) this.#abort = new AbortController();
    this.connected();
    this.#render();
  }

  disconnectedCallback() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#abort.abort();
    for (const { stop } of this.#watched.values()) stop();
    this.#watched.clear();
    this.disconnected();
  }

  connected() {}

  disconnected() {}

  /** Returns what is shown. */
  render() {
    return [];
  }

  /** Asks for a rendering in the next frame. */
  update() {
    if (!this.#frame && this.isConnected) this.#frame = requestAnimationFrame(() => this.#render());
  }

  /** Listens until the element leaves the document. */
  on(target, type, listener, options) {
    target.addEventListener(type, listener, { ...options, signal: this.signal });
  }

  /**
   * Returns the resource of a path, and renders again when it changes. Asked for within `render()` it is released when a
   * later rendering does not ask for it; asked for elsewhere it is kept until the element leaves the document.
   */
  watch(path, options) {
    let held = this.#watched.get(path);
    if (!held) {
      const resource = watch(path, options);
      held = { resource, stop: resource.subscribe(() => this.update()), pinned: false };
      this.#watched.set(path, held);
    } else {
      held.resource.alsoOn(options?.on);
    }
    if (this.#used) this.#used.add(path);
    else held.pinned = true;
    return held.resource;
  }

  #render() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#used = new Set();
    try {
      render(this.render(), this);
      for (const [path, { stop, pinned }] of this.#watched) {
        if (pinned || this.#used.has(path)) continue;
        stop();
        this.#watched.delete(path);
      }
    } finally {
      this.#used = null;
    }
  }
}

/** What the router shows in <main>. `params` are of the path, `query` is what follows the question mark. */
export class Page extends View {
  params = {};
  query = new URLSearchParams();

  /** Changes parameters of the address, without a step in the history. null and "" take one away. */
  setQuery(changes) {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") query.delete(name);
      else query.set(name, value);
    }
    this.query = query;
    replaceQuery(query);
    this.update();
  }

  /** Called when the address changed in its query alone. */
  queryChanged() {
    this.update();
  }

  /** Returns (perhaps in time) whether the page may be left: false keeps it. */
  mayLeave() {
    return true;
  }
}
