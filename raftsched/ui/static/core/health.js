/** What is known of the connection: the node that answers, its leader, and whether it answers at all. */

class Health extends EventTarget {
  node = location.origin; // the origin that requests go to
  nodes = [location.origin]; // all that are known, this page's own first
  reachable = true;
  leader = undefined; // undefined: not known yet; null: none
  led = 0; // when there was a leader last
  stale = false;
  since = Date.now(); // of the last answer

  /** Notes what is known now, and tells who listens when it is something else. */
  set(changes) {
    let changed = false;
    for (const [name, value] of Object.entries(changes)) {
      if (this[name] === value) continue;
      this[name] = value;
      changed ||= name !== "since";
    }
    if (this.leader) this.led = this.since;
    if (changed) this.dispatchEvent(new Event("change"));
  }

  /** Notes the members of the cluster, by their advertised addresses, as places to go on. */
  know(addresses) {
    const others = addresses
      .map((address) => new URL(address.includes("://") ? address : `http://${address}`).origin)
      .filter((origin) => origin !== location.origin && origin.startsWith(location.protocol));
    const nodes = [location.origin, ...others];
    if (nodes.join() !== this.nodes.join()) this.set({ nodes });
  }

  /** Chooses the next node after one that did not answer. */
  leave(origin) {
    if (this.node !== origin) return; // somebody else did
    const next = this.nodes[(this.nodes.indexOf(origin) + 1) % this.nodes.length];
    this.set({ node: next });
  }
}

export const health = new Health();
