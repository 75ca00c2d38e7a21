/** The frame around the pages: the menu's mark, who is signed in, the connection's state, the theme, and the keys. */

import { get, lookAtNode } from "../core/api.js";
import { onChange, restart } from "../core/changes.js";
import { View, define } from "../core/element.js";
import { health } from "../core/health.js";
import { bind, bound } from "../core/keys.js";
import { navigate, onShown } from "../core/router.js";
import { ROUTES } from "../core/routes.js";
import { session } from "../core/session.js";
import { forgetAll } from "../core/store.js";
import { h } from "../core/vdom.js";
import { isOutdated } from "../core/version.js";
import { facts, timeOf } from "./basics.js";
import "./palette.js";
import { openDialog } from "./dialog.js";

const KNOW_MS = 30_000; // between two looks at who the members are
const NODE_LOOK_MS = 5_000; // and at whether the node lives, or the one that was left is back
const THEMES = ["system", "light", "dark"];

onShown((route) => {
  for (const link of document.querySelectorAll("#menu a")) {
    if (route && link.dataset.section === route.section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showMenu(false);
});

const menuButton = document.getElementById("menu-button");
menuButton.addEventListener("click", () => showMenu(menuButton.getAttribute("aria-expanded") === "false"));

/** Shows or hides the menu where it has no place of its own. */
function showMenu(shown) {
  menuButton.setAttribute("aria-expanded", String(shown));
}

/** Says when the connection, the node or the leader is lost, and when the page is older than its node. */
class Banner extends View {
  #outdated = false;

  connected() {
    this.setAttribute("role", "status");
    this.on(health, "change", () => this.update());
    this.on(session, "token", () => this.#know());
    this.on(session, "change", () => this.#know()); // the token of the tab is taken up after this
    const stop = onChange((change) => {
      if (change === null || change.kinds.has("cluster")) this.#know();
      if (change === null) this.#look();
    });
    const unlessHidden = (look) => () => document.hidden || look();
    const timers = [
      setInterval(
        unlessHidden(() => this.#know()),
        KNOW_MS,
      ),
      setInterval(
        unlessHidden(() => lookAtNode(NODE_LOOK_MS)),
        NODE_LOOK_MS,
      ),
    ];
    this.signal.addEventListener("abort", () => [stop(), ...timers.map(clearInterval)]);
    this.#know();
  }

  render() {
    if (!health.reachable)
      return bannerOf(
        "bad",
        "No node answers. The page tries again by itself; what you see is as of ",
        timeOf(health.since),
        ".",
      );
    if (health.leader === null) {
      const asOf = health.led ? [", as of ", timeOf(health.led)] : null;
      return bannerOf("warn", "No node leads now: nothing starts, and changes wait. Reading goes on", asOf, ".");
    }
    if (health.stale) return bannerOf("warn", "This node cannot know whether it shows the newest state.");
    if (health.node !== location.origin)
      return bannerOf("info", `${location.host} does not answer; the page goes on at ${new URL(health.node).host}.`);
    if (this.#outdated)
      return bannerOf(
        "info",
        "A new version of this page is here: ",
        h("a", { href: location.href, onclick: reload }, "reload"),
        ".",
      );
    return [];
  }

  async #know() {
    if (session.refused) return;
    const cluster = await get("/v1/cluster").catch(() => null);
    if (cluster) health.know(cluster.nodes.map((node) => node.http).filter(Boolean));
  }

  async #look() {
    this.#outdated = await isOutdated();
    this.update();
  }
}
define("rs-banner", Banner);

function bannerOf(kind, ...words) {
  return h("p", { class: `banner ${kind}` }, ...words);
}

function reload(event) {
  event.preventDefault();
  location.reload();
}

/** Who is signed in, the theme, and help. */
class Corner extends View {
  connected() {
    this.on(session, "change", () => this.update());
    this.on(session, "refused", () => this.#askToken());
    this.on(session, "token", () => (forgetAll(), restart()));
    if (session.refused) this.#askToken();
  }

  render() {
    const { who } = session;
    const theme = document.documentElement.dataset.theme ?? "system";
    return [
      who && who.kind !== "anonymous"
        ? h(
            "button",
            { type: "button", class: "quiet small who", "aria-haspopup": "dialog", onclick: () => this.#showWho() },
            h("span", null, who.name),
            h("span", { class: "badge wide-only" }, who.role),
          )
        : null,
      who && who.kind !== "anonymous"
        ? h("button", { type: "button", class: "quiet small wide-only", onclick: () => this.#leave() }, "Sign out")
        : null,
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          title: `Theme: ${theme}`,
          "aria-label": `Theme: ${theme}`,
          onclick: () => this.#turn(theme),
        },
        h("span", { "aria-hidden": "true" }, { system: "◐", light: "☀", dark: "☾" }[theme]),
      ),
      h(
        "button",
        { type: "button", class: "quiet small", title: "Keys", "aria-label": "Keys", onclick: showKeys },
        "?",
      ),
    ];
  }

  #askToken() {
    if (location.pathname === "/ui/sign-in") return;
    navigate(`/ui/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
  }

  #showWho() {
    const { who } = session;
    openDialog({
      title: "Signed in",
      body: (dialog) => [
        facts([
          ["Name", who.name],
          ["Role", `${who.role} in ${who.namespaces ? who.namespaces.join(", ") : "all namespaces"}`],
          ["And", who.grants.map((grant) => `${grant.role} in ${grant.namespace}`).join(", ")],
          ["Until", who.expires_at ? timeOf(who.expires_at) : "it is revoked"],
          ["Issuer", who.issuer],
          ["Subject", who.subject],
        ]),
        h(
          "div",
          { class: "actions end" },
          h("button", { type: "button", onclick: () => (dialog.close(), this.#leave()) }, "Sign out"),
        ),
      ],
    });
  }

  #leave() {
    session.signOut();
    navigate("/ui/sign-in");
  }

  #turn(theme) {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("raftsched-theme");
      else localStorage.setItem("raftsched-theme", next);
    } catch {
      // it holds until the page is left
    }
    this.update();
  }
}
define("rs-corner", Corner);

/** Shows the keys that do something on this page. */
function showKeys() {
  openDialog({
    title: "Keys",
    body: () =>
      h(
        "dl",
        { class: "keys" },
        bound().map(([key, help]) =>
          h(
            "div",
            { key },
            h(
              "dt",
              null,
              key.split(" ").map((one) => h("kbd", null, one)),
            ),
            h("dd", null, help),
          ),
        ),
      ),
  });
}

bind({ "?": ["show these keys", showKeys] });
for (const { path, keys, title } of ROUTES) {
  if (keys) bind({ [`g ${keys}`]: [`go to ${title.toLowerCase()}`, () => navigate(path)] });
}
