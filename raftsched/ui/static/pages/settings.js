/** The settings of the cluster: what each is for comes from the API's description, which is loaded here only. */

import { card, heading, loading, problem } from "../components/basics.js";
import { confirmDialog, toast } from "../components/dialog.js";
import { get, request } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { SETTING_GROUPS } from "./setting-groups.js";

const SETTINGS_PATH = "/v1/cluster/settings";

export class SettingsPage extends Page {
  #fields = null; // name -> {description, default, "x-bounds", type}
  #values = null; // as they are in the cluster
  #etag = "";
  #draft = {}; // name -> text, of those that were changed here
  #error = null;
  #busy = false;

  connected() {
    this.on(session, "change", () => this.update());
    this.watch(SETTINGS_PATH, { on: ["settings"] }).subscribe(() => this.#busy || this.#load());
    this.#load();
  }

  async #load() {
    try {
      const [answer, description] = await Promise.all([
        request("GET", SETTINGS_PATH, { signal: this.signal }),
        this.#fields ? null : get("/openapi.json", undefined, { signal: this.signal }),
      ]);
      if (description) this.#fields = description.components.schemas.SettingsOut.properties;
      this.#take(answer);
      this.#error = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#error = error;
    }
    this.update();
  }

  #take({ data, headers }) {
    this.#values = data;
    this.#etag = headers.get("ETag");
    for (const name in this.#draft) if (this.#draft[name] === String(data[name])) delete this.#draft[name];
  }

  render() {
    const head = heading("Settings", {
      above: h("a", { href: "/ui/cluster" }, "Cluster"),
      below: h("p", { class: "muted" }, "They hold on every node alike, for what happens from then on."),
    });
    if (!this.#values) return [head, this.#error ? problem(this.#error) : loading()];
    // A node of a later version may show settings that this page does not know.
    const grouped = new Set(SETTING_GROUPS.flatMap(([, names]) => names));
    const rest = Object.keys(this.#values).filter((name) => !grouped.has(name));
    const groups = rest.length ? [...SETTING_GROUPS, ["Others", rest]] : SETTING_GROUPS;
    const changed = Object.keys(this.#draft).length;
    return [
      head,
      h(
        "form",
        { class: "stack", onsubmit: (event) => (event.preventDefault(), this.#save()), novalidate: true },
        groups.map(([title, names]) =>
          card(
            title,
            h(
              "div",
              { class: "settings" },
              names.filter((name) => name in this.#values).map((name) => this.#field(name)),
            ),
          ),
        ),
        problem(this.#generalError()),
        changed
          ? h(
              "div",
              { class: "save-bar", role: "status" },
              `${plural(changed, "setting")} changed`,
              h(
                "span",
                { class: "actions" },
                h("button", { type: "button", onclick: () => this.#discard() }, "Discard"),
                h("button", { type: "submit", class: "primary", disabled: this.#busy }, this.#busy ? "…" : "Save"),
              ),
            )
          : null,
      ),
    ];
  }

  #field(name) {
    const about = this.#fields[name] ?? {};
    const id = `setting-${name}`;
    const [what, ...rest] = (about.description ?? name).replace(/^1: /, "").split("; ");
    const bounds = about["x-bounds"];
    const value = this.#draft[name] ?? String(this.#values[name]);
    const may = session.may("settings_patch");
    const error = this.#error?.errors?.find((one) => one.pointer === `/${name}`);
    const isSwitch = bounds?.[0] === 0 && bounds[1] === 1;
    const common = { id, disabled: !may, "aria-invalid": error ? "true" : null, "aria-describedby": `${id}-help` };
    return h(
      "div",
      { class: ["field", name in this.#draft && "changed"], key: name },
      h("label", { for: id }, words(what)),
      h(
        "div",
        { class: "setting-row" },
        isSwitch
          ? h(
              "select",
              { ...common, value, onchange: (event) => this.#set(name, event.target.value) },
              h("option", { value: "0" }, "no"),
              h("option", { value: "1" }, "yes"),
            )
          : h("input", {
              ...common,
              value,
              spellcheck: "false",
              autocomplete: "off",
              inputmode: about.type === "integer" ? "numeric" : null,
              oninput: (event) => this.#set(name, event.target.value),
            }),
        may && about.default !== undefined && value !== String(about.default)
          ? h(
              "button",
              {
                type: "button",
                class: "quiet small",
                "aria-label": `Default of ${name}`,
                onclick: () => this.#set(name, String(about.default)),
              },
              "Default",
            )
          : null,
      ),
      h(
        "span",
        { class: "help", id: `${id}-help` },
        h("code", null, name),
        rest.length ? [" · ", words(rest.join("; ")), "."] : null,
        isSwitch || !bounds
          ? null
          : h("span", null, ` · default ${shownValue(about.default)}; from ${bounds.map(shownValue).join(" to ")}`),
      ),
      error ? h("span", { class: "error", role: "alert" }, `${name} ${error.detail}`) : null,
    );
  }

  #generalError() {
    if (!this.#error) return null;
    const there = (one) => one.pointer && one.pointer.slice(1) in this.#values;
    return this.#error.errors?.length && this.#error.errors.every(there) ? null : this.#error;
  }

  #set(name, text) {
    if (text === String(this.#values[name])) delete this.#draft[name];
    else this.#draft[name] = text;
    this.update();
  }

  #discard() {
    this.#draft = {};
    this.#error = null;
    this.update();
  }

  async #save() {
    this.#busy = true;
    this.#error = null;
    this.update();
    const change = Object.fromEntries(
      Object.entries(this.#draft).map(([name, text]) => [name, settingOf(text.trim())]),
    );
    try {
      this.#take(await request("PATCH", SETTINGS_PATH, { body: change, headers: { "If-Match": this.#etag } }));
      this.#draft = {};
      toast("Saved");
    } catch (error) {
      this.#error = error;
      if (error.status === 412)
        this.#take(
          await request("GET", SETTINGS_PATH).catch(() => ({
            data: this.#values,
            headers: new Headers({ ETag: this.#etag }),
          })),
        );
    }
    this.#busy = false;
    this.update();
    if (this.#error) requestAnimationFrame(() => this.querySelector("[aria-invalid]")?.focus());
  }

  mayLeave() {
    const changed = Object.keys(this.#draft).length;
    if (!changed) return true;
    return confirmDialog({
      title: "Leave without saving?",
      body: `${plural(changed, "setting")} changed here would be lost.`,
      action: "Leave",
      danger: true,
    });
  }
}
define("rs-settings-page", SettingsPage);

/** Returns the value that a text stands for; nothing is the default. */
export function settingOf(text) {
  if (text === "") return null;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

function shownValue(value) {
  return typeof value === "number" ? number(value) : value;
}

/** Returns a part of the description, with its code as code. */
function words(text) {
  const whole = text[0].toUpperCase() + text.slice(1);
  return whole.split("\x60").map((part, at) => (at % 2 ? h("code", null, part) : part));
}
