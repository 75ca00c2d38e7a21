/** Tabs: one of several parts of a page is shown (WAI-ARIA Authoring Practices, tabs with automatic activation). */

import { h } from "../core/vdom.js";

/**
 * Returns tabs and the part that is chosen.
 *
 * @param {Array<[string, string, () => any]>} parts name (of the address), title, and what is shown
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function tabs(parts, chosen, choose) {
  const at = Math.max(
    0,
    parts.findIndex(([name]) => name === chosen),
  );
  const onkeydown = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = (at + by + parts.length) % parts.length;
    choose(parts[next][0]);
    event.currentTarget.children[next].focus();
  };
  return h(
    "div",
    { class: "tabs" },
    h(
      "div",
      { role: "tablist", onkeydown },
      parts.map(([name, title], index) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${name}`,
            key: name,
            "aria-selected": String(index === at),
            "aria-controls": index === at ? `panel-${name}` : null,
            tabindex: index === at ? "0" : "-1",
            onclick: () => choose(name),
          },
          title,
        ),
      ),
    ),
    h(
      "div",
      {
        role: "tabpanel",
        key: parts[at][0],
        id: `panel-${parts[at][0]}`,
        "aria-labelledby": `tab-${parts[at][0]}`,
        tabindex: "0",
      },
      parts[at][2](),
    ),
  );
}
