/** A job as a form: each field reads and writes one place of the job's JSON, and shows what is wrong there. */

import { h } from "../../core/vdom.js";
import { FIELDS } from "./fields.js";
import { isObject, namesOf, valueAt } from "./model.js";
import "./pairs.js";

const writtenAs = (value, write) => {
  if (value === undefined || value === null) return "";
  const text = write(value);
  return typeof text === "string" ? text : JSON.stringify(value);
};
const pointerOf = (path) => path.map((name) => `/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/**
 * Returns the fields of a form over one value.
 *
 * @param {object} options.value what is edited
 * @param {(path: string[], value: any) => void} options.set undefined takes out
 * @param {Array<{pointer, detail}>} options.errors
 * @param {object} [options.effective] the same with defaults, where it is known
 * @param {Map<string, boolean>} options.opened which folded parts are open
 * @param {() => void} [options.update] called when one was opened or closed
 *
 * Of a text, `keep` leaves "" where the field is what makes the value one of its kind.
 */
export function makeForm({ value, set, errors, effective, opened, update }) {
  const claimed = new Set();

  /** Returns the errors at a pointer, and below it where that has no fields of its own. */
  const found = (pointer, below = false) => {
    const here = errors.filter((one) => one.pointer === pointer || (below && one.pointer.startsWith(`${pointer}/`)));
    for (const one of here) claimed.add(one);
    return here;
  };

  const shownErrors = (list, id) =>
    list.length ? h("p", { class: "error", id }, list.map((one) => one.detail).join("; ")) : null;

  const field = (path, title, make, { help, wide, below = true } = {}) => {
    const pointer = pointerOf(path);
    const id = `f${pointer.replaceAll("/", "-")}`;
    const wrong = found(pointer, below);
    const said = help ?? (path.length === 1 ? FIELDS[path[0]]?.[0] : null);
    const described = [said && `${id}-help`, wrong.length && `${id}-error`].filter(Boolean).join(" ") || null;
    const props = { id, "aria-invalid": wrong.length ? "true" : null, "aria-describedby": described };
    return h(
      "div",
      { class: ["field", wide && "wide"], key: pointer },
      h("label", { for: id }, title),
      make(props),
      said ? h("p", { class: "help", id: `${id}-help` }, said) : null,
      shownErrors(wrong, `${id}-error`),
    );
  };

  const hintOf = (path) => {
    const known = valueAt(effective, path);
    if (typeof known === "string" || typeof known === "number") return String(known);
    return path.length === 1 ? (FIELDS[path[0]]?.[1] ?? "") : "";
  };

  const form = {
    at: (...path) => valueAt(value, path),
    set,

    /** Returns what is wrong at one place that has no field of its own. */
    errors: (pointer) => {
      const list = found(pointer);
      return list.length ? h("p", { class: "error", role: "alert" }, list.map((one) => one.detail).join("; ")) : null;
    },

    /** Returns the errors that no field showed so far. */
    rest: () => errors.filter((one) => !claimed.has(one)),

    text: (path, title, { hint, list, mono, area, keep, read = (text) => text, write = (one) => one, ...more } = {}) =>
      field(
        path,
        title,
        (props) => {
          const now = valueAt(value, path);
          return h(area ? "textarea" : "input", {
            ...props,
            class: mono ? "mono" : null,
            rows: area,
            list,
            value: writtenAs(now, write),
            placeholder: hint ?? hintOf(path),
            spellcheck: "false",
            autocomplete: "off",
            oninput: (event) => set(path, event.target.value === "" && !keep ? undefined : read(event.target.value)),
          });
        },
        more,
      ),

    number: (path, title, more) =>
      form.text(path, title, {
        ...more,
        read: (text) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text),
        write: (one) => String(one),
      }),

    choice: (path, title, choices, more = {}) =>
      field(
        path,
        title,
        (props) => {
          const now = valueAt(value, path);
          const standard = hintOf(path);
          const odd = now !== undefined && !(String(now) in choices);
          return h(
            "select",
            {
              ...props,
              value: now === undefined ? "" : String(now),
              onchange: (event) => set(path, event.target.value || undefined),
            },
            h("option", { value: "", key: "" }, standard ? `default: ${standard}` : "default"),
            odd ? h("option", { value: String(now), key: "odd" }, JSON.stringify(now)) : null,
            Object.entries(choices).map(([one, words]) => h("option", { value: one, key: one }, words)),
          );
        },
        more,
      ),

    check: (path, title, help) =>
      h(
        "div",
        { class: "field", key: pointerOf(path) },
        h(
          "label",
          { class: "check" },
          h("input", {
            type: "checkbox",
            checked: valueAt(value, path) === true,
            onchange: (event) => set(path, event.target.checked || undefined),
          }),
          ` ${title}`,
        ),
        help ? h("p", { class: "help" }, help) : null,
        shownErrors(found(pointerOf(path), true)),
      ),

    /** A list of texts, in lines or with commas. */
    list: (path, title, { lines = false, keep, ...more } = {}) =>
      field(
        path,
        title,
        (props) =>
          h("rs-list", {
            ".props": { ...props, placeholder: more.hint },
            ".lines": lines,
            ".value": valueAt(value, path),
            ".changed": (list) => set(path, list ?? (keep ? [] : undefined)),
            key: "list",
          }),
        more,
      ),

    pairs: (path, title, { secrets, names, ...more } = {}) => {
      const pointer = pointerOf(path);
      const wrong = found(pointer, true);
      const said = more.help ?? (path.length === 1 ? FIELDS[path[0]]?.[0] : null);
      const words = wrong.map((one) => [namesOf(one.pointer).at(-1), one.detail].join(" "));
      return h(
        "fieldset",
        { class: "field wide", key: pointer },
        h("legend", null, title),
        said ? h("p", { class: "help" }, said) : null,
        h("rs-pairs", {
          ".label": title,
          ".names": names ?? ["Name", "Value"],
          ".secrets": Boolean(secrets),
          ".changed": (given) => set(path, given),
          ".value": valueAt(value, path),
        }),
        words.length ? h("p", { class: "error" }, words.join("; ")) : null,
      );
    },

    /** JSON of any shape. What is no JSON yet stays in the field, and the job as it was. */
    json: (path, title, more = {}) =>
      field(
        path,
        title,
        (props) =>
          h("rs-json", {
            ".props": { ...props, placeholder: more.hint },
            ".value": valueAt(value, path),
            ".changed": (given) => set(path, given),
            key: "json",
          }),
        more,
      ),

    /** Returns a part that is folded, and opens by itself where something in it is wrong. */
    fold: (name, title, body, pointers = []) => {
      const wrong = errors.filter((one) =>
        pointers.some((at) => one.pointer === at || one.pointer.startsWith(`${at}/`)),
      ).length;
      const given = pointers.filter((at) => valueAt(value, namesOf(at)) !== undefined).length;
      return h(
        "details",
        {
          class: "fold",
          key: name,
          open: wrong > 0 || (opened.get(name) ?? false),
          ontoggle: (event) => {
            if (opened.get(name) === event.target.open) return;
            opened.set(name, event.target.open);
            update?.();
          },
        },
        h(
          "summary",
          null,
          title,
          given ? h("span", { class: "muted" }, ` · ${given} set`) : null,
          wrong ? h("span", { class: "bad" }, ` · ${wrong} wrong`) : null,
        ),
        h("div", { class: "fields" }, body),
      );
    },

    /** Returns the items of a list of objects, each with its fields. */
    items: (path, title, { make, fresh, add }) => {
      const list = valueAt(value, path);
      const listed = Array.isArray(list) ? list : isObject(list) ? [list] : [];
      const change = (next) => set(path, next.length ? next : undefined);
      return h(
        "fieldset",
        { class: "field wide", key: pointerOf(path) },
        h("legend", null, title),
        FIELDS[path[0]] ? h("p", { class: "help" }, FIELDS[path[0]][0]) : null,
        listed.map((one, at) => {
          const own = pointerOf(isObject(list) ? path : [...path, at]);
          return h(
            "div",
            { class: "item", key: at },
            make(one, (next) => change(listed.with(at, next)), at),
            h(
              "button",
              {
                type: "button",
                class: "quiet small",
                "aria-label": `Take out number ${at + 1}`,
                onclick: () => change(listed.filter((_, other) => other !== at)),
              },
              "✕",
            ),
            shownErrors(found(own, true)),
          );
        }),
        h("button", { type: "button", class: "small", key: "add", onclick: () => change([...listed, fresh]) }, add),
        shownErrors(found(pointerOf(path))),
      );
    },
  };
  return form;
}
