/** What the page shows as lines of the command line and of curl, for a terminal or a script. */

import { health } from "../core/health.js";
import { View, define } from "../core/element.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { copyButton } from "./basics.js";
import { openDialog } from "./dialog.js";
import { linesOf } from "./copy-lines.js";

class CopyAs extends View {
  render() {
    return h(
      "button",
      { type: "button", class: "quiet small", title: "Copy as CLI or curl", "aria-label": "Copy as CLI or curl", onclick: copyAs },
      h("span", { "aria-hidden": "true", class: "mono" }, ">_"),
    );
  }
}
define("rs-copy-as", CopyAs);

/** Shows the lines of the page that is shown now. */
export function copyAs() {
  const { cli, curl } = linesOf(location.pathname, location.search, health.node, session.signedIn);
  const block = (title, lines) =>
    h(
      "section",
      null,
      h("header", { class: "card-head" }, h("h3", null, title), copyButton(lines.join("\n"), `Copy ${title}`)),
      h("pre", { class: "code", tabindex: "0" }, lines.join("\n")),
    );
  openDialog({
    title: "This page in a terminal",
    body: () => h("div", { class: "stack" }, block("raftsched", cli), curl.length ? block("curl", curl) : null),
  });
}
