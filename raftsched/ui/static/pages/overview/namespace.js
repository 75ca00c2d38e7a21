/** The choice of a namespace: of all, or of those that the token is for. */

import { session } from "../../core/session.js";
import { h } from "../../core/vdom.js";

/** Returns the namespaces that a caller is for, sorted. */
export function namespacesOf(who) {
  return [...new Set([...(who.namespaces ?? []), ...who.grants.map((grant) => grant.namespace)])].sort();
}

/** Returns a choice that is kept in the address of the page; nothing where there is no choice. */
export function pickNamespace(page, chosen) {
  const limited = Boolean(session.who?.namespaces);
  const listed = limited ? null : page.watch("/v1/namespaces?limit=500", { on: ["namespaces"] });
  const names = limited ? namespacesOf(session.who) : (listed.data?.items ?? []).map((one) => one.name);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  if (names.length < 2) return null;
  return h(
    "select",
    {
      "aria-label": "Namespace",
      class: "picked",
      value: chosen ?? "",
      onchange: (event) => page.setQuery({ namespace: event.target.value }),
    },
    limited ? null : h("option", { value: "" }, "All namespaces"),
    names.map((name) => h("option", { key: name, value: name }, name)),
  );
}
