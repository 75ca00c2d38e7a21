/** Times in several zones, with what the clocks do to them. */

import { fit, timeOf } from "../../components/basics.js";
import { absolute, moment, viewerZone } from "../../core/format.js";
import { h } from "../../core/vdom.js";

/** Returns whether this browser knows a time zone. */
export function knowsZone(zone) {
  try {
    return Boolean(zone) && Boolean(new Intl.DateTimeFormat("en", { timeZone: zone }));
  } catch {
    return false;
  }
}

/** Returns the list of time zones for the inputs of a page (`list: "zones"`). */
export function zoneList() {
  const zones = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];
  return h(
    "datalist",
    { id: "zones" },
    zones.map((zone) => h("option", { value: zone, key: zone })),
  );
}

/** Returns a table of times. `zones`: one column each; notes stand below their time. */
export function timesTable(times, zones, { caption = "Next times", remove } = {}) {
  const own = viewerZone();
  const named = times.some(({ trigger }) => trigger);
  return h(
    "div",
    { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption, ref: fit },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          zones.map((zone) => zoneHead(zone, own, remove)),
          h("th", { scope: "col" }, "From now"),
          named ? h("th", { scope: "col" }, "Trigger") : null,
        ),
      ),
      h(
        "tbody",
        null,
        times
          .flatMap(({ at, note, trigger }) => [
            h(
              "tr",
              { key: at, class: note ? "noted" : null },
              zones.map((zone) => h("td", { class: "nowrap", key: zone, "data-label": zone }, shownAt(moment(at), zone))),
              h("td", { class: "nowrap muted", "data-label": "From now" }, timeOf(at)),
              named ? h("td", { "data-label": "Trigger" }, trigger ? h("code", null, trigger) : null) : null,
            ),
            note
              ? h(
                  "tr",
                  { key: `${at} note` },
                  h("td", { colspan: zones.length + 1 + (named ? 1 : 0) }, h("p", { class: "warning small-note" }, note)),
                )
              : null,
          ])
          .filter(Boolean),
      ),
    ),
  );
}

function zoneHead(zone, own, remove) {
  return h(
    "th",
    { scope: "col", key: zone },
    zone === own ? `${zone} (yours)` : zone,
    remove?.(zone)
      ? h(
          "button",
          { type: "button", class: "quiet small", "aria-label": `Without ${zone}`, onclick: remove(zone) },
          "✕",
        )
      : null,
  );
}

/** Returns a time with its day of the week, as short as it can be. */
export function shownAt(ms, zone) {
  const day = new Intl.DateTimeFormat("en", { weekday: "short", timeZone: zone }).format(ms);
  return `${day} ${absolute(ms, zone, { seconds: ms % 60_000 !== 0, millis: ms % 1000 !== 0 })}`;
}
