/** What somebody else changed of a job while it was edited here. */

import { h } from "../../core/vdom.js";
import { isObject, same } from "./model.js";

/** Returns each change between two versions: `{path, before, after, both}`; `both`: the patch changes it, too. */
export function changesOf(before, after, patch, path = "") {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((name) => {
    const [was, is] = [before[name], after[name]];
    if (same(was, is)) return [];
    const here = path ? `${path}.${name}` : name;
    const mine = isObject(patch) ? patch[name] : undefined;
    if (isObject(was) && isObject(is)) return changesOf(was, is, mine, here);
    return [{ path: here, before: textOfValue(was), after: textOfValue(is), both: mine !== undefined }];
  });
}

function textOfValue(value) {
  return value === undefined ? "nothing" : JSON.stringify(value);
}

/** Returns what is said where somebody else was faster. */
export function conflictNotice({ changes, revision }, drop, close) {
  return h(
    "section",
    { class: "warning conflict", role: "alert", "aria-label": "Changed meanwhile" },
    h(
      "p",
      null,
      h("strong", null, `Somebody else changed the job (revision ${revision}).`),
      " Below is their version with your changes in it; nothing is saved yet.",
    ),
    h(
      "ul",
      null,
      changes.map(({ path, before, after, both }) =>
        h(
          "li",
          { key: path },
          h("code", null, path),
          `: ${before} → ${after}`,
          both ? " (you changed it, too: yours is kept)" : "",
        ),
      ),
    ),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", onclick: close }, "Go on with both"),
      h("button", { type: "button", onclick: drop }, "Drop my changes"),
    ),
  );
}
