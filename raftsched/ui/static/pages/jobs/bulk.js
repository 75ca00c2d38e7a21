/** Actions on many jobs: counted first, then followed to their end. */

import { problem } from "../../components/basics.js";
import { confirmDialog, openDialog, toast } from "../../components/dialog.js";
import { get, post, randomKey } from "../../core/api.js";
import { number, plural } from "../../core/format.js";
import { h } from "../../core/vdom.js";

const LOOK_MS = 500;

export const ACTIONS = {
  pause: { title: "Pause", done: "paused", says: "They are not due any more until somebody resumes them." },
  resume: { title: "Resume", done: "resumed", says: "They are due again from now on." },
  run: { title: "Run now", done: "asked to run", says: "Each of them runs once, now." },
  expire: { title: "Expire", done: "expired", says: "They are finished: not due any more, but kept with their runs." },
  delete: {
    title: "Delete",
    done: "deleted",
    says: "They are gone for good, with what is known of their runs. What runs is asked to end.",
  },
};

/**
 * Asks, with the count of a dry run, and does it. Returns whether it was begun.
 *
 * @param {object} target {ids}, {filter} or {all: true}
 */
export async function actOnMany(action, target) {
  const { title, says } = ACTIONS[action];
  let counted;
  try {
    counted = await post("/v1/jobs:actions", { action, ...target, dry_run: true });
  } catch (error) {
    toast(`${error.title}: ${error.detail || error.message}`, { kind: "error" });
    return false;
  }
  const many = `${counted.complete ? "" : "at least "}${plural(counted.matched, "job")}`;
  if (!counted.matched) {
    toast("No job matches any more.");
    return false;
  }
  const others = counted.matched - counted.sample.length;
  const idempotency = randomKey();
  let operation;
  const confirmed = await confirmDialog({
    title: `${title} ${many}?`,
    danger: action === "delete",
    action: `${title} ${many}`,
    body: [
      h("p", null, says),
      listed(counted.sample.map((one) => [one.id, `${one.namespace}/${one.name ?? one.id}`])),
      others > 0 ? h("p", { class: "muted" }, `and ${plural(others, "other")}`) : null,
    ],
    run: async () => {
      operation = await post("/v1/jobs:actions", { action, ...target }, { idempotency });
    },
  });
  if (confirmed) followOperation(operation, ACTIONS[action]);
  return confirmed;
}

/** Shows how far an operation is, until it ends or the dialog is closed: it goes on by itself. */
function followOperation(operation, { title, done }) {
  let now = operation;
  let error = null;
  let open = true;
  const cancel = async () => {
    try {
      now = await post(`/v1/operations/${operation.id}/cancel`);
    } catch (failure) {
      error = failure;
    }
    dialog.update();
  };
  const dialog = openDialog({
    title,
    onClose: () => (open = false),
    body: (handle) => {
      const running = now.state === "RUNNING";
      return [
        h("progress", { max: now.total ?? 1, value: progress(now), "aria-label": "Progress" }),
        h("p", { role: "status" }, outcome(now, done)),
        listed(now.refusals.map((one) => [one.id, one.id, one.title])),
        problem(error),
        h(
          "div",
          { class: "actions end" },
          running ? h("button", { type: "button", class: "danger", onclick: cancel }, "Cancel the rest") : null,
          h(
            "button",
            { type: "button", class: "primary", onclick: () => handle.close() },
            running ? "Go on in the background" : "Close",
          ),
        ),
      ];
    },
  });
  const look = async () => {
    while (now.state === "RUNNING") {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      try {
        now = await get(`/v1/operations/${operation.id}`);
        error = null;
      } catch (failure) {
        error = failure;
      }
      if (open) dialog.update();
    }
    if (!open) toast(`${title}: ${outcome(now, done)}`);
  };
  look();
}

/** Returns a list of [key, code, words]. */
function listed(rows) {
  const one = ([key, code, words]) => h("li", { key }, h("code", null, code), words && ` ${words}`);
  return h("ul", { class: "sample" }, rows.map(one));
}

/** Returns how far it is; undefined: that is not known. */
function progress({ state, total, examined }) {
  if (state !== "RUNNING") return total ?? 1;
  return total === null ? undefined : examined;
}

function outcome({ state, changed, unchanged, refused, examined, total }, done) {
  const parts = [`${number(changed)} ${done}`];
  if (unchanged) parts.push(`${number(unchanged)} were so already`);
  if (refused) parts.push(`${number(refused)} refused`);
  if (state === "RUNNING") parts.push(`${number(examined)}${total === null ? "" : ` of ${number(total)}`} looked at`);
  if (state === "CANCELLED") parts.push("the rest was cancelled");
  return `${parts.join(", ")}.`;
}
