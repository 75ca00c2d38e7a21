/** Beside the form: the JSON of the job, and the lines by which a terminal would send it. */

import { card, copyButton } from "../../components/basics.js";
import { health } from "../../core/health.js";
import { session } from "../../core/session.js";
import { h } from "../../core/vdom.js";
import { cliLine, curlLine, placeOf } from "./model.js";

/**
 * Returns the JSON, with what is wrong in it by line.
 *
 * @param {Error|null} options.error why the text is no JSON
 * @param {Array<{pointer, detail}>} options.errors what is wrong with the job
 * @param {boolean} options.several a list would be taken, too
 */
export function jsonCard({ text, typed, error, errors, several }) {
  let area = null;
  const go = ({ start, end, line }) => {
    area ??= document.getElementById("json");
    area.focus();
    area.setSelectionRange(start, end);
    area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / text.split("\n").length));
  };
  const wrong = ({ pointer, detail }) => {
    const place = placeOf(text, pointer);
    return h(
      "li",
      { key: pointer + detail },
      h("button", { type: "button", class: "quiet small", onclick: () => go(place) }, `line ${place.line}`),
      h("span", { class: "bad" }, h("code", null, pointer), ` ${detail}`),
    );
  };
  const body = [
    h("textarea", {
      id: "json",
      class: "json",
      "aria-label": several ? "The job as JSON; a list, or one in each line, creates several" : "The job as JSON",
      rows: Math.min(32, Math.max(12, text.split("\n").length + 1)),
      spellcheck: "false",
      autocomplete: "off",
      wrap: "off",
      value: text,
      "aria-invalid": error || errors.length ? "true" : null,
      "aria-describedby": "json-errors",
      oninput: (event) => typed(event.target.value),
    }),
    h(
      "ul",
      { id: "json-errors", class: "json-errors" },
      error ? h("li", { class: "bad", key: "text" }, `✕ ${error.message}`) : null,
      errors.map(wrong),
    ),
    several
      ? h("p", { class: "muted small-note" }, "Paste a list of jobs, or one job in each line, to create several.")
      : null,
  ];
  return card("JSON", body, { actions: copyButton(text, "Copy the JSON") });
}

/** Returns the lines that send a request. A token is never in them. */
export function sentCard({ method, path, body, headers }, id) {
  const token = session.signedIn;
  const line = (title, text) => [
    h("div", { class: "code-head" }, h("h3", null, title), copyButton(text, `Copy for ${title}`)),
    h("pre", { class: "code", tabindex: "0", "aria-label": title }, text),
  ];
  return card("What is sent", [
    line("curl", curlLine(method, health.node + path, body, { token, headers })),
    line(
      "raftsched",
      cliLine(health.node, id ? `jobs edit ${id}` : "jobs create -f -", id ? undefined : body, { token }),
    ),
  ]);
}
