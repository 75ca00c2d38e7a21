/** Inputs whose text is not always a value: it stays as it is typed, until it is one. */

import { View, define } from "../../core/element.js";
import { h } from "../../core/vdom.js";
import { same } from "./model.js";

class Typed extends View {
  props = {};
  changed = () => {};
  text = "";
  wrong = null;
  #value = undefined;

  set value(value) {
    if (value === undefined ? this.#value !== undefined || !this.text : !same(value, this.#value)) {
      this.text = this.textOf(value);
      this.wrong = null;
    }
    this.#value = value;
    this.update();
  }

  typed(text) {
    this.text = text;
    this.wrong = null;
    try {
      this.#value = this.valueOf(text);
      this.changed(this.#value);
    } catch (error) {
      this.wrong = error.message;
    }
    this.update();
  }

  input(tag, more) {
    const { id } = this.props;
    return [
      h(tag, {
        spellcheck: "false",
        ...this.props,
        ...more,
        "aria-invalid": this.wrong ? "true" : this.props["aria-invalid"],
        value: this.text,
        oninput: (event) => this.typed(event.target.value),
      }),
      this.wrong ? h("p", { class: "error", id: `${id}-typed` }, this.wrong) : null,
    ];
  }
}

define(
  "rs-json",
  class extends Typed {
    textOf(value) {
      return value === undefined ? "" : JSON.stringify(value, null, 2);
    }

    valueOf(text) {
      return text.trim() ? JSON.parse(text) : undefined;
    }

    render() {
      return this.input("textarea", { rows: Math.min(12, Math.max(2, this.text.split("\n").length)) });
    }
  },
);

define(
  "rs-list",
  class extends Typed {
    lines = false;

    textOf(value) {
      if (value === undefined) return "";
      return Array.isArray(value) ? value.join(this.lines ? "\n" : ", ") : JSON.stringify(value);
    }

    valueOf(text) {
      if (!text.trim()) return undefined;
      if (this.lines) return text.replace(/\n$/, "").split("\n");
      return text
        .split(",")
        .map((one) => one.trim())
        .filter(Boolean);
    }

    render() {
      return this.lines
        ? this.input("textarea", { rows: Math.min(10, this.text.split("\n").length + 1) })
        : this.input("input", {});
    }
  },
);
