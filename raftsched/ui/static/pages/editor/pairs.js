/** Names and values, edited row by row: labels, headers, the environment. */

import { View, define } from "../../core/element.js";
import { h } from "../../core/vdom.js";
import { isObject, same } from "./model.js";

class Pairs extends View {
  #rows = [];
  label = "";
  names = ["Name", "Value"];
  secrets = false; // a value may be a reference to a secret
  changed = () => {};

  /** The object. A name that is being typed is no other object yet: rows stay as they are while they say the same. */
  set value(value) {
    const given = isObject(value) ? value : {};
    if (!same(this.#object(), given)) this.#rows = Object.entries(given).map(([name, one]) => row(name, one));
    this.update();
  }

  render() {
    return [
      this.#rows.map((one, at) =>
        h(
          "div",
          { class: "pair", key: one.key },
          h("input", {
            "aria-label": `${this.label}: ${this.names[0]} ${at + 1}`,
            placeholder: this.names[0].toLowerCase(),
            value: one.name,
            spellcheck: "false",
            oninput: (event) => this.#set(one, { name: event.target.value }),
          }),
          h("input", {
            "aria-label": `${this.label}: ${one.secret ? "secret" : this.names[1]} ${at + 1}`,
            placeholder: one.secret ? "name of a secret" : this.names[1].toLowerCase(),
            value: one.value,
            spellcheck: "false",
            oninput: (event) => this.#set(one, { value: event.target.value }),
          }),
          this.secrets
            ? h(
                "label",
                { class: "check" },
                h("input", {
                  type: "checkbox",
                  checked: one.secret,
                  onchange: (event) => this.#set(one, { secret: event.target.checked }),
                }),
                " secret",
              )
            : null,
          h(
            "button",
            {
              type: "button",
              class: "quiet small",
              "aria-label": `Take out ${one.name || "this row"}`,
              onclick: () => {
                this.#rows = this.#rows.filter((other) => other !== one);
                this.#tell();
              },
            },
            "✕",
          ),
        ),
      ),
      h(
        "button",
        {
          type: "button",
          class: "small",
          key: "add",
          onclick: () => {
            this.#rows = [...this.#rows, row("", "")];
            this.update();
          },
        },
        `Add to ${this.label.toLowerCase()}`,
      ),
    ];
  }

  #set(one, change) {
    Object.assign(one, change);
    this.#tell();
  }

  #tell() {
    const found = this.#object();
    this.changed(Object.keys(found).length ? found : undefined);
    this.update();
  }

  #object() {
    const rows = this.#rows.filter((one) => one.name !== "");
    return Object.fromEntries(rows.map((one) => [one.name, one.secret ? { $secret: one.value } : one.value]));
  }
}
define("rs-pairs", Pairs);

let rows = 0;

function row(name, value) {
  const secret = isObject(value) && typeof value.$secret === "string";
  const text = secret ? value.$secret : typeof value === "string" ? value : JSON.stringify(value);
  return { key: ++rows, name, secret, value: text };
}
