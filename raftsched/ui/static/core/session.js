/** Who asks: the token of this tab, and what it may do. */

import { get, onUnauthorized, setToken } from "./api.js";
import { ROLES } from "./roles.js";

const STORED = "raftsched-token"; // in sessionStorage: gone with the tab
const RANK = { open: 0, viewer: 1, editor: 2, operator: 3, admin: 4 };

class Session extends EventTarget {
  who = null; // what /v1/whoami says
  refused = false; // a request was: there is no token, or it holds no longer

  /** Takes up the token of this tab, if there is one, and learns what it may do. */
  async start() {
    setToken(sessionStorage.getItem(STORED));
    onUnauthorized((problem) => this.#refused(problem));
    await this.learn();
  }

  /** Signs in. @throws {ApiProblem} when the token is refused; it is forgotten then. */
  async signIn(token, { keep = true } = {}) {
    setToken(token);
    try {
      this.who = await get("/v1/whoami");
    } catch (error) {
      this.signOut();
      throw error;
    }
    if (keep) sessionStorage.setItem(STORED, token);
    this.refused = false;
    this.dispatchEvent(new Event("change"));
  }

  /** Forgets the token. */
  signOut() {
    setToken(null);
    sessionStorage.removeItem(STORED);
    this.who = null;
    this.dispatchEvent(new Event("change"));
  }

  /** Asks the cluster what the token may do. */
  async learn() {
    try {
      this.who = await get("/v1/whoami");
    } catch {
      this.who = null;
    }
    this.dispatchEvent(new Event("change"));
  }

  /** Returns whether an operation may be asked for, in a namespace where it is about one. */
  may(operation, namespace) {
    const needed = RANK[ROLES[operation]] ?? RANK.admin;
    if (!this.who) return needed === 0;
    return this.#rank(namespace) >= needed;
  }

  #rank(namespace) {
    let rank = RANK[this.who.role] ?? 0;
    const { namespaces, grants } = this.who;
    if (namespaces && namespace !== undefined && !namespaces.includes(namespace)) rank = 0;
    for (const grant of grants ?? []) {
      if (namespace === undefined || grant.namespace === namespace) rank = Math.max(rank, RANK[grant.role] ?? 0);
    }
    return rank;
  }

  #refused(problem) {
    const before = this.who;
    this.who = null;
    this.refused = true;
    const event = new CustomEvent("refused", { detail: { problem, before } });
    this.dispatchEvent(event);
    this.dispatchEvent(new Event("change"));
  }
}

export const session = new Session();
