/** What the doctor finds: each check with its result, and what would make it right. */

import { card, shown } from "../../components/basics.js";
import { plural } from "../../core/format.js";
import { h } from "../../core/vdom.js";

const EVERY_MS = 30_000;
const BADGES = {
  ok: ["state-done", "✓ well"],
  warn: ["state-waiting", "! look at it"],
  fail: ["state-failed", "✕ wrong"],
};

/** Returns the findings; what is well is folded away. */
export function findings(page) {
  const doctor = page.watch("/v1/cluster/doctor", { every: EVERY_MS });
  const again = h(
    "button",
    { type: "button", class: "small", disabled: doctor.loading, onclick: () => doctor.reload() },
    "Check again",
  );
  return card(
    "Doctor",
    shown(doctor, ({ items }) => {
      const bad = items.filter((one) => one.state !== "ok").sort((a, b) => (a.state > b.state ? 1 : -1));
      const good = items.filter((one) => one.state === "ok");
      return [
        bad.length ? h("ul", { class: "findings" }, bad.map(finding)) : h("p", null, "Nothing is wrong."),
        h(
          "details",
          { class: "rest" },
          h("summary", null, `${plural(good.length, "check")} went well`),
          h("ul", { class: "findings" }, good.map(finding)),
        ),
      ];
    }),
    { actions: again },
  );
}

/** Returns where this node serves a section of the documentation: "docs/runbook.md#runs-that-fail". */
function docsAddress(see) {
  return see.replace(/^docs\/(.*)\.md/, "/ui/docs/$1/");
}

function finding(one) {
  const [kind, words] = BADGES[one.state];
  return h(
    "li",
    { class: "finding", key: `${one.check} ${one.nodes}` },
    h("span", null, h("span", { class: `badge ${kind}` }, words)),
    h("span", null, h("strong", null, one.check), `: ${one.detail}`),
    one.do ? h("span", { class: "do" }, one.do) : null,
    one.do && one.why ? h("span", { class: "why" }, `Why: ${one.why}. `, h("a", { href: docsAddress(one.see) }, "More")) : null,
  );
}
