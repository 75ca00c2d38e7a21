/** The frame around the pages: the menu's mark, who is signed in, the connection's state, the theme, and the keys. */

import { get } from "../core/api.js";
import { onChange, restart } from "../core/changes.js";
import { View, define } from "../core/element.js";
import { health } from "../core/health.js";
import { bind, bound } from "../core/keys.js";
import { navigate, onShown } from "../core/router.js";
import { ROUTES } from "../core/routes.js";
import { session } from "../core/session.js";
import { forgetAll } from "../core/store.js";
import { h } from "../core/vdom.js";
import { timeOf } from "./basics.js";
import { openDialog } from "./dialog.js";

const KNOW_MS = 30_000;
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

/** Says when the connection, the node or the leader is lost. */
class Banner extends View {
  connected() {
    this.setAttribute("role", "status");
    this.on(health, "change", () => this.update());
    const know = () => get("/v1/cluster").then((cluster) => health.know(cluster.nodes.map((node) => node.http).filter(Boolean)), () => {});
    const stop = onChange((change) => {
      if (change === null || change.kinds.has("cluster")) know();
    });
    const timer = setInterval(() => !document.hidden && know(), KNOW_MS);
    this.signal.addEventListener("abort", () => (stop(), clearInterval(timer)));
    know();
  }

  render() {
    if (!health.reachable) return bar("bad", "No node answers. The page tries again by itself; what you see is as of ", timeOf(health.since), ".");
    if (health.leader === null) return bar("warn", "There is no leader now. Reading goes on; changes wait for one.");
    if (health.stale) return bar("warn", "This node cannot know whether it shows the newest state.");
    if (health.node !== location.origin) return bar("info", `${location.host} does not answer; the page goes on at ${new URL(health.node).host}.`);
    return [];
  }
}
define("rs-banner", Banner);

function bar(kind, ...words) {
  return h("p", { class: `banner ${kind}` }, ...words);
}

/** Who is signed in, the theme, and help. */
class Corner extends View {
  connected() {
    this.on(session, "change", () => this.update());
    this.on(session, "refused", () => this.#askToken());
    if (session.refused) this.#askToken();
  }

  render() {
    const { who } = session;
    const theme = document.documentElement.dataset.theme ?? "system";
    return [
      who && who.kind !== "anonymous"
        ? h("span", { class: "who", title: `role ${who.role ?? "by namespace"}` }, who.name, " ", h("span", { class: "muted" }, who.role ?? ""))
        : null,
      who && who.kind !== "anonymous"
        ? h("button", { type: "button", class: "quiet small", onclick: () => this.#leave() }, "Sign out")
        : null,
      h(
        "button",
        { type: "button", class: "quiet small", title: `Theme: ${theme}`, "aria-label": `Theme: ${theme}`, onclick: () => this.#turn(theme) },
        h("span", { "aria-hidden": "true" }, { system: "◐", light: "☀", dark: "☾" }[theme]),
      ),
      h("button", { type: "button", class: "quiet small", title: "Keys", "aria-label": "Keys", onclick: showKeys }, "?"),
    ];
  }

  #askToken() {
    if (location.pathname === "/ui/sign-in") return;
    navigate(`/ui/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
  }

  #leave() {
    session.signOut();
    forgetAll();
    restart();
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
        bound().map(([key, help]) => h("div", { key }, h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, help))),
      ),
  });
}

bind({ "?": ["show these keys", showKeys] });
for (const { path, keys, title } of ROUTES) {
  if (keys) bind({ [`g ${keys}`]: [`go to ${title.toLowerCase()}`, () => navigate(path)] });
}
