/** Who asks: the token of this tab, and what it may do. */

import { get, onUnauthorized, setToken } from "./api.js";
import { onChange } from "./changes.js";
import { health } from "./health.js";
import { ROLES, SHARED, WHOLE } from "./roles.js";

const STORED = "raftsched-token"; // in sessionStorage: gone with the tab
const RANK = { open: 0, viewer: 1, editor: 2, operator: 3, admin: 4 };

/**
 * "change": who asks, or what they may do, is something else. "token": another token is shown from now on, or none.
 * "refused": a request was, because there is no token or because it holds no longer.
 */
class Session extends EventTarget {
  who = null; // what /v1/whoami says
  refused = null; // the problem, until somebody signs in
  signedIn = false; // there is a token
  #learning = false;

  /** Takes up the token of this tab, if there is one, and learns what it may do. */
  async start() {
    const token = stored.get();
    setToken(token);
    this.signedIn = token !== null;
    onUnauthorized((problem) => this.#refuse(problem));
    onChange((change) => {
      if (!this.refused && (change === null || change.kinds.has("tokens") || !this.who)) this.learn();
    });
    health.addEventListener("change", () => health.reachable && !this.who && !this.refused && this.learn());
    await this.learn();
  }

  /**
   * Shows a token from now on. `keep`: until the tab is closed; else until the page is loaded again.
   *
   * @throws {ApiProblem|Unreachable} it is refused, or nobody can say whether it is good; it is forgotten then
   */
  async signIn(token, { keep = true } = {}) {
    const before = this.refused;
    setToken(token);
    try {
      this.#know(await get("/v1/whoami"));
    } catch (error) {
      this.signOut();
      this.refused = before;
      throw error;
    }
    if (keep) stored.set(token);
    this.signedIn = true;
    this.refused = null;
    this.#tell("token");
  }

  /** Forgets the token. */
  signOut() {
    setToken(null);
    stored.set(null);
    this.signedIn = false;
    this.#know(null);
    this.#tell("token");
  }

  /** Asks the cluster what the token may do. What was known stays when nobody answers. */
  async learn() {
    if (this.#learning) return;
    this.#learning = true;
    try {
      this.#know(await get("/v1/whoami"));
    } catch {
      // refused: `#refuse` knows; unreachable: it is asked for again when somebody answers
    }
    this.#learning = false;
  }

  /** Returns whether an operation may be asked for: in a namespace, or in any where none is named. */
  may(operation, namespace) {
    const needed = RANK[ROLES[operation]] ?? RANK.admin;
    if (!needed) return true;
    const { who } = this;
    if (!who) return false;
    const own = RANK[who.role] ?? 0;
    if (SHARED.has(operation)) return own >= needed;
    if (WHOLE.has(operation)) return own >= needed && !who.namespaces;
    const here = (name) => namespace === undefined || name === namespace;
    if (own >= needed && (!who.namespaces || who.namespaces.some(here))) return true;
    return who.grants.some((grant) => here(grant.namespace) && RANK[grant.role] >= needed);
  }

  #refuse(problem) {
    if (this.refused) return;
    this.refused = problem;
    setToken(null);
    stored.set(null);
    this.#know(null);
    this.#tell("refused");
  }

  #know(who) {
    const same = JSON.stringify(who) === JSON.stringify(this.who);
    this.who = who;
    if (!same) this.#tell("change");
  }

  #tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

const stored = {
  get() {
    try {
      return sessionStorage.getItem(STORED);
    } catch {
      return null; // a browser without storage: the token is in memory only
    }
  },
  set(token) {
    try {
      if (token === null) sessionStorage.removeItem(STORED);
      else sessionStorage.setItem(STORED, token);
    } catch {
      // as above
    }
  },
};

export const session = new Session();
