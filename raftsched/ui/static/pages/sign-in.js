/** The page that asks for a token. */

import { facts, heading, problem } from "../components/basics.js";
import { Page, define } from "../core/element.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";

export class SignInPage extends Page {
  #error = null;
  #busy = false;

  connected() {
    this.on(session, "change", () => this.update());
  }

  render() {
    const { who, refused } = session;
    return [
      heading("Sign in"),
      refused && !this.#error ? h("p", { class: "warning narrow", role: "status" }, reason(refused)) : null,
      who?.kind === "anonymous"
        ? h("p", { class: "notice narrow" }, "This cluster needs no token: everybody may do everything.")
        : null,
      who && who.kind !== "anonymous" ? facts([["Signed in as", `${who.name}, ${who.role}`]]) : null,
      h(
        "form",
        { class: "card narrow", onsubmit: (event) => this.#submit(event) },
        h("label", { for: "token" }, "Token"),
        h("input", {
          id: "token",
          name: "token",
          type: "password",
          autocomplete: "off",
          spellcheck: "false",
          required: true,
          "aria-describedby": "token-help",
          ref: (input) => queueMicrotask(() => input.focus()),
        }),
        h(
          "p",
          { id: "token-help", class: "muted" },
          "It stays in this tab, and goes to the nodes of this cluster only.",
        ),
        h(
          "label",
          null,
          h("input", { type: "checkbox", name: "keep", checked: true }),
          " until the tab is closed, not only until it is loaded again",
        ),
        problem(this.#error),
        h("div", null, h("button", { type: "submit", class: "primary", disabled: this.#busy }, "Sign in")),
      ),
      h(
        "p",
        { class: "muted" },
        "An admin makes tokens: ",
        h("code", null, "raftsched tokens create NAME --role viewer"),
      ),
    ];
  }

  async #submit(event) {
    event.preventDefault();
    const given = new FormData(event.target);
    this.#busy = true;
    this.#error = null;
    this.update();
    try {
      await session.signIn(given.get("token").trim(), { keep: given.has("keep") });
      const to = this.query.get("to") ?? "";
      await navigate(to.startsWith("/ui/") ? to : "/ui/", { replace: true });
    } catch (error) {
      this.#error = error;
    }
    this.#busy = false;
    this.update();
  }
}
define("rs-sign-in-page", SignInPage);

/** Returns why somebody is asked to sign in. `refused`: the problem of a request that was refused. */
function reason(refused) {
  return refused.headers.get("WWW-Authenticate")?.includes("invalid_token")
    ? "This token is no longer valid."
    : refused.detail;
}
