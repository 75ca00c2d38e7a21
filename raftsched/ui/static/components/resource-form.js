/** Forms made of a description of their fields, in a dialog; what the API refuses is shown at the field it is about. */

import { h } from "../core/vdom.js";
import { problem } from "./basics.js";
import { openDialog } from "./dialog.js";

// Of each kind of field: the text that stands for a value, and the value that a text stands for.
const FIELD_KINDS = {
  text: [(value) => String(value ?? ""), (text) => text.trim() || null],
  password: [() => "", (text) => text],
  number: [(value) => String(value ?? ""), (text) => (text === "" ? null : Number(text))],
  checkbox: [Boolean, (value) => value],
  checks: [(value) => value ?? [], (value) => value],
  lines: [
    (value) => (value ?? []).join("\n"),
    (text) =>
      text
        .split(/[\n,]/)
        .map((line) => line.trim())
        .filter(Boolean),
  ],
  pairs: [
    (value) =>
      Object.entries(value ?? {})
        .map((pair) => pair.join(": "))
        .join("\n"),
    pairsOf,
  ],
  json: [
    (value) => (value && Object.keys(value).length ? JSON.stringify(value, null, 2) : ""),
    (text) => JSON.parse(text.trim() || "null"),
  ],
};
const TALL = new Set(["lines", "pairs", "json"]);

function pairsOf(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(":");
      if (at < 1) throw new Error(`has the line "${line}" without a colon; write name: value`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

/** Returns the errors of each field by its pointer, and under "" those that belong to none. */
export function errorsByField(fields, errors) {
  const found = {};
  for (const error of errors ?? []) {
    const at = error.pointer ?? "";
    const field =
      fields.find(({ pointer }) => `${at}/`.startsWith(`${pointer}/`)) ??
      (at && fields.find(({ pointer }) => pointer.startsWith(`${at}/`)));
    (found[field ? field.pointer : ""] ??= []).push(error);
  }
  return found;
}

/** Returns what a form shows for each field of a row, by pointer. */
export function draftOf(fields, row) {
  const at = (pointer) =>
    pointer
      .split("/")
      .slice(1)
      .reduce((found, name) => found?.[name], row);
  return Object.fromEntries(
    fields.map(({ pointer, type = "text", initial }) => [pointer, FIELD_KINDS[type][0](at(pointer) ?? initial)]),
  );
}

/** Returns the body that a draft stands for. @throws an error with `errors` when a text is no value. */
export function bodyOf(fields, draft) {
  const body = {};
  for (const { pointer, type = "text" } of fields) {
    const names = pointer.split("/").slice(1);
    const last = names.pop();
    try {
      names.reduce((found, name) => (found[name] ??= {}), body)[last] = FIELD_KINDS[type][1](draft[pointer]);
    } catch (error) {
      const detail = type === "json" ? `is not JSON: ${error.message}` : error.message;
      throw Object.assign(new Error(detail), { errors: [{ pointer, detail }] });
    }
  }
  return body;
}

function fieldView(field, draft, errors, changed) {
  const { pointer, label, type = "text", help, required, placeholder, min, rows = 4 } = field;
  const id = `field${pointer.replaceAll("/", "-")}`;
  const described = [help && `${id}-help`, errors && `${id}-error`].filter(Boolean).join(" ") || null;
  const value = draft[pointer];
  const set = (next) => {
    draft[pointer] = next;
    changed();
  };
  const props = { id, "aria-describedby": described, "aria-invalid": errors ? "true" : null, required, placeholder };
  const notes = [
    help ? h("span", { class: "help", id: `${id}-help` }, help) : null,
    errors
      ? h("span", { class: "error", id: `${id}-error` }, `${label} ${errors.map((one) => one.detail).join("; ")}`)
      : null,
  ];
  if (type === "checks") {
    const toggle = (one) => (event) =>
      set(event.target.checked ? [...value, one] : value.filter((other) => other !== one));
    const check = (one) =>
      h(
        "label",
        { key: one },
        h("input", { type: "checkbox", checked: value.includes(one), onchange: toggle(one) }),
        ` ${one.replace("_", " ")}`,
      );
    return h(
      "fieldset",
      { class: "field", key: pointer },
      h("legend", null, label),
      h("div", { class: "row" }, field.options.map(check)),
      notes,
    );
  }
  if (type === "checkbox") {
    const box = h("input", { ...props, type, checked: value, onchange: (event) => set(event.target.checked) });
    return h("div", { class: "field", key: pointer }, h("label", { for: id }, box, ` ${label}`), notes);
  }
  Object.assign(props, { value, oninput: (event) => set(event.target.value) });
  const input = TALL.has(type)
    ? h("textarea", { ...props, rows, spellcheck: "false" })
    : h("input", { ...props, type, min, autocomplete: type === "password" ? "new-password" : "off" });
  return h("div", { class: "field", key: pointer }, h("label", { for: id }, label), input, notes);
}

/**
 * Opens a form in a dialog.
 *
 * @param {Array<object>} options.fields `{pointer, label, type, help, required, options, initial}`; `pointer` is the
 *   place of the value in the body, and of the API's errors
 * @param {object} [options.row] the present values
 * @param {(body, row) => Promise} options.submit its error is shown in the form, which stays
 * @param {() => Promise<object>} [options.reload] the present values anew, when somebody else changed them meanwhile
 */
export function openForm({ title, fields, row, intro, action = "Save", submit, reload }) {
  let draft = draftOf(fields, row);
  let error = null;
  let busy = false;

  async function attempt(run) {
    busy = true;
    error = null;
    dialog.update();
    try {
      await run();
    } catch (failure) {
      error = failure;
    }
    busy = false;
    dialog.update();
    dialog.element.querySelector("[aria-invalid]")?.focus();
  }

  const send = (event) => {
    event.preventDefault();
    attempt(async () => {
      await submit(bodyOf(fields, draft), row);
      dialog.close();
    });
  };
  const again = () =>
    attempt(async () => {
      row = await reload();
      draft = draftOf(fields, row);
    });
  const body = () => {
    const errors = errorsByField(fields, error?.errors);
    const { title: name, detail, message } = error ?? {};
    return h(
      "form",
      { onsubmit: send, novalidate: true },
      intro ? h("p", { class: "muted" }, intro) : null,
      fields.map((field) => fieldView(field, draft, errors[field.pointer], () => dialog.update())),
      error && (errors[""] || !error.errors?.length)
        ? problem({ title: name, detail, message, errors: errors[""] })
        : null,
      h(
        "div",
        { class: "actions end" },
        error?.status === 412 && reload
          ? h("button", { type: "button", onclick: again }, "Take up the present values")
          : null,
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: "primary", disabled: busy }, action),
      ),
    );
  };
  const dialog = openDialog({ title, body });
  dialog.element.querySelector("input, textarea")?.focus();
}
