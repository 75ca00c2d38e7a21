/** Moving in a list by keys: j and k, Enter opens. */

import { bind } from "../core/keys.js";

/**
 * Binds j, k and Enter to the rows of an element until the signal aborts.
 *
 * A row is what matches the selector; Enter follows its first link. The row that is meant has the focus.
 */
export function bindListKeys(element, selector, signal) {
  const rows = () => [...element.querySelectorAll(selector)];
  const step = (by) => {
    const all = rows();
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    if (!next) return;
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  bind(
    {
      j: ["next row", () => step(1)],
      k: ["row before", () => step(-1)],
      Enter: [
        "open the row",
        () => {
          const row = rows().find((one) => one.contains(document.activeElement));
          const active = document.activeElement;
          if (row && active !== row && active.matches("a, button, input")) active.click();
          else row?.querySelector("a[href]")?.click();
        },
      ],
    },
    signal,
  );
}
