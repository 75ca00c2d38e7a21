/** What is shown when a page could not be loaded: most often its node went away, or has another version by now. */

import { empty, heading } from "../components/basics.js";
import { Page, define } from "../core/element.js";
import { h } from "../core/vdom.js";

export default class FailedPage extends Page {
  render() {
    return [
      heading("This page could not be loaded"),
      empty(
        "The node may be gone, or have another version by now.",
        String(this.error?.message ?? ""),
        h("button", { type: "button", class: "primary", onclick: () => location.reload() }, "Reload"),
      ),
    ];
  }
}
define("rs-failed-page", FailedPage);
