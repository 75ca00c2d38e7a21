/** What is shown when a page could not be loaded: most often its node went away, or has another version by now. */

import { empty, heading } from "../components/basics.js";
import { Page, define } from "../core/element.js";
import { isOutdated } from "../core/version.js";
import { h } from "../core/vdom.js";

export class FailedPage extends Page {
  #outdated = false;

  async connected() {
    this.#outdated = await isOutdated();
    this.update();
  }

  render() {
    const reload = h("button", { type: "button", class: "primary", onclick: () => location.reload() }, "Reload");
    if (this.#outdated) {
      return [heading("A new version of this page is here"), empty("The node was upgraded.", "Reload to go on.", reload)];
    }
    return [
      heading("This page could not be loaded"),
      empty("The node may be gone, or have another version by now.", String(this.error?.message ?? ""), reload),
    ];
  }
}
define("rs-failed-page", FailedPage);
