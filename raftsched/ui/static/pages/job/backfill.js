/** The dialog that runs a job for past times: first which ones, then done. */

import { loading, problem } from "../../components/basics.js";
import { openDialog, toast } from "../../components/dialog.js";
import { post } from "../../core/api.js";
import { DAY_MS, absolute, moment, plural, viewerZone } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { jobPath } from "./paths.js";
import { zoneOf } from "./schedule.js";

const CALM_MS = 300; // after the last key
const TIMES_SHOWN = 50; // times of the preview

/** Asks from when to when, shows the times that never ran, and makes their runs. */
export function openBackfill(job, changed) {
  const path = `${jobPath(job)}/backfill`;
  const now = Date.now();
  const values = { from: local(now - DAY_MS), to: "" };
  let preview = null;
  let error = null;
  let busy = false;
  let timer = 0;
  let turn = 0;
  const body = () => ({ from: iso(values.from), ...(values.to ? { to: iso(values.to) } : {}) });
  const look = async () => {
    const mine = ++turn;
    preview = error = null;
    dialog.update();
    try {
      const seen = await post(path, { ...body(), dry_run: true });
      if (mine === turn) preview = seen;
    } catch (failure) {
      if (mine === turn) error = failure;
    }
    dialog.update();
  };
  const typed = (name) => (event) => {
    values[name] = event.target.value;
    preview = error = null;
    turn++;
    clearTimeout(timer);
    timer = setTimeout(look, CALM_MS);
    dialog.update();
  };
  const submit = async (event) => {
    event.preventDefault();
    if (busy || !preview?.count) return;
    busy = true;
    dialog.update();
    try {
      const { count } = await post(path, body());
      changed();
      toast(`${plural(count, "run")} ${count === 1 ? "was" : "were"} made.`);
      dialog.close();
    } catch (failure) {
      error = failure;
      busy = false;
      dialog.update();
    }
  };
  const field = (name, words, help) =>
    h(
      "div",
      { class: "field" },
      h("label", { for: `backfill-${name}` }, words),
      h("input", {
        id: `backfill-${name}`,
        type: "datetime-local",
        step: 1,
        required: name === "from",
        value: values[name],
        oninput: typed(name),
      }),
      help ? h("p", { class: "help" }, help) : null,
    );
  const dialog = openDialog({
    title: "Backfill",
    onClose: () => clearTimeout(timer),
    body: (handle) =>
      h(
        "form",
        { onsubmit: submit },
        h("p", { class: "muted" }, "One run for each past time of its schedule that never ran, the oldest first."),
        h("div", { class: "grid" }, field("from", "From"), field("to", "To before", "Now, when it is left empty.")),
        h("p", { class: "muted small-note" }, `In ${viewerZone()}, your time zone.`),
        error ? problem(error) : preview ? times(preview, zoneOf(job)) : loading("Looking which times never ran …"),
        h(
          "div",
          { class: "actions end" },
          h("button", { type: "button", class: "quiet", onclick: () => handle.close() }, "Cancel"),
          h(
            "button",
            { type: "submit", class: "primary", disabled: busy || !preview?.count },
            preview?.count ? `Make ${plural(preview.count, "run")}` : "Make runs",
          ),
        ),
      ),
  });
  look();
}

function times({ count, times: all }, zone) {
  if (!count)
    return h("p", { class: "notice", role: "status" }, "No time of its schedule went by without a run between them.");
  return h(
    "div",
    { role: "status" },
    h("p", null, h("strong", null, plural(count, "time")), ` in ${zone}:`),
    h(
      "ol",
      { class: "times", tabindex: "0", "aria-label": "Times" },
      all.slice(0, TIMES_SHOWN).map((at) => h("li", { key: at }, absolute(moment(at), zone))),
      count > TIMES_SHOWN
        ? h(
            "li",
            { key: "more", class: "muted" },
            `and ${plural(count - TIMES_SHOWN, "more", "more")}, up to ${absolute(moment(all.at(-1)), zone)}`,
          )
        : null,
    ),
  );
}

/** Returns a moment as a field takes it: "2026-11-23T07:00:00", in the viewer's zone. */
function local(at) {
  return absolute(at).replace(" ", "T");
}

function iso(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}
