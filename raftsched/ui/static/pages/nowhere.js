/** What is shown at an address that is none. */

import { empty, heading } from "../components/basics.js";
import { Page, define } from "../core/element.js";
import { h } from "../core/vdom.js";

export class NowherePage extends Page {
  render() {
    return [
      heading("Not found"),
      empty(
        `There is no page at ${location.pathname}.`,
        "It may have been renamed or deleted.",
        h("a", { href: "/ui/" }, "Overview"),
      ),
    ];
  }
}
define("rs-nowhere-page", NowherePage);
