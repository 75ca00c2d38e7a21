/** The page that asks for a token. */

import { heading, problem } from "../components/basics.js";
import { Page, define } from "../core/element.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";

export default class SignInPage extends Page {
  #error = null;
  #busy = false;

  render() {
    return [
      heading("Sign in"),
      h(
        "form",
        { class: "card narrow", onsubmit: (event) => this.#submit(event) },
        h("label", { for: "token" }, "Token"),
        h("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true, autofocus: true }),
        problem(this.#error),
        h("button", { type: "submit", class: "primary", disabled: this.#busy }, "Sign in"),
      ),
    ];
  }

  async #submit(event) {
    event.preventDefault();
    this.#busy = true;
    this.#error = null;
    this.update();
    try {
      await session.signIn(new FormData(event.target).get("token").trim());
      const to = this.query.get("to") ?? "/ui/";
      await navigate(to.startsWith("/ui") ? to : "/ui/", { replace: true });
    } catch (error) {
      this.#error = error;
    }
    this.#busy = false;
    this.update();
  }
}
define("rs-sign-in-page", SignInPage);
