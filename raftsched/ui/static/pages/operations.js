/** Operations on many jobs: how far they are, and what they refused. */

import { stateBadge, timeOf } from "../components/basics.js";
import { confirmDialog } from "../components/dialog.js";
import { ResourcesPage, button, gauge } from "../components/resource.js";
import { post } from "../core/api.js";
import { define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";

const OPERATION = {
  title: "Operations",
  says: "Actions on many jobs at once, the newest first.",
  path: "/v1/operations",
  on: ["operations"],
  empty: [
    "There was no action on many jobs lately.",
    h("a", { href: "/ui/jobs" }, "Select jobs, and pause, resume, run, expire or delete them together."),
  ],
};

/** Returns which jobs an operation is about, in words. */
export function scopeText({ ids, filter }) {
  if (ids !== null) return plural(ids, "job");
  const words = (value) => {
    if (typeof value === "string") return value;
    return Array.isArray(value)
      ? value.join(" or ")
      : Object.entries(value)
          .map((pair) => pair.join("="))
          .join(", ");
  };
  const parts = Object.entries(filter ?? {}).map(([name, value]) => `${name.replaceAll("_", " ")} ${words(value)}`);
  return parts.length ? `jobs with ${parts.join("; ")}` : "all jobs";
}

export class OperationsPage extends ResourcesPage {
  kind = OPERATION;

  list(rows) {
    return rows.map((one) => this.#card(one));
  }

  #card(one) {
    const { id, action, kill, state, refusals } = one;
    const counts = [`${number(one.matched)} matched`, `${number(one.changed)} changed`];
    if (one.unchanged) counts.push(`${number(one.unchanged)} were so already`);
    const cancel = () =>
      confirmDialog({
        title: `Cancel this ${action}?`,
        body: "It makes no more steps. What was done stays.",
        action: "Cancel it",
        danger: true,
        run: () => post(`/v1/operations/${id}/cancel`),
      });
    const running = state === "RUNNING";
    return h(
      "section",
      { class: "card operation", key: id, "aria-labelledby": `operation-${id}` },
      h(
        "header",
        { class: "card-head" },
        h("h2", { id: `operation-${id}` }, `${action}${kill ? " and end what runs" : ""}: ${scopeText(one)}`),
        h(
          "div",
          { class: "actions" },
          stateBadge(state),
          running && session.may("operations_cancel") ? button("Cancel", cancel) : null,
        ),
      ),
      running ? h("p", null, gauge(one.examined, one.total, "looked at")) : null,
      h(
        "p",
        { class: "muted" },
        counts.join(" · "),
        " · begun ",
        timeOf(one.created_at),
        one.ended_at ? [", ended ", timeOf(one.ended_at)] : null,
        " · ",
        h("code", null, id),
      ),
      refusals.length ? refused(one) : null,
    );
  }
}
define("rs-operations-page", OperationsPage);

function refused({ refused: count, refusals }) {
  const some = refusals.length < count ? `the first ${refusals.length} of ` : "";
  const line = ({ id, title }) => h("li", { key: id }, h("a", { href: `/ui/jobs/${id}` }, id), ` ${title}`);
  const list = h("ul", { class: "reasons" }, refusals.map(line));
  return h("details", null, h("summary", null, `Refused: ${some}${number(count)}`), list);
}
