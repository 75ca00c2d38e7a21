/** Dialogs and short messages, above whatever page is shown. */

import { announce, problem } from "./basics.js";
import { h, render } from "../core/vdom.js";

const TOAST_MS = 6_000;

/**
 * Opens a dialog, and returns `{close, update, element}`.
 *
 * @param {string} options.title
 * @param {(dialog) => any} options.body makes what is in it, again at each `update()`
 * @param {() => void} [options.onClose]
 */
export function openDialog({ title, body, onClose, wide = false }) {
  const element = document.createElement("dialog");
  const before = document.activeElement;
  if (wide) element.className = "wide";
  const handle = {
    element,
    close() {
      element.close();
    },
    update() {
      render(
        [
          h(
            "header",
            { class: "dialog-head" },
            h("h2", { id: "dialog-title" }, title),
            h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => element.close() }, "✕"),
          ),
          h("div", { class: "dialog-body" }, body(handle)),
        ],
        element,
      );
    },
  };
  element.setAttribute("aria-labelledby", "dialog-title");
  element.addEventListener("close", () => {
    element.remove();
    onClose?.();
    if (before?.isConnected) before.focus();
  });
  handle.update();
  document.body.append(element);
  element.showModal();
  return handle;
}

/**
 * Asks before something is done.
 *
 * @param {any} options.body what will happen; a function is called at each rendering
 * @param {string} options.action the words of the button
 * @param {() => Promise} [options.run] done when it is confirmed; its error is shown in the dialog, which stays
 * @returns {Promise<boolean>} whether it was confirmed (and done)
 */
export function confirmDialog({ title, body, action = "OK", danger = false, run }) {
  return new Promise((resolve) => {
    let busy = false;
    let error = null;
    let result = false;
    const submit = async (event) => {
      event.preventDefault();
      if (busy) return;
      busy = true;
      error = null;
      dialog.update();
      try {
        await run?.();
        result = true;
        dialog.close();
      } catch (failure) {
        error = failure;
      }
      busy = false;
      if (!result) dialog.update();
    };
    const dialog = openDialog({
      title,
      onClose: () => resolve(result),
      body: (handle) =>
        h(
          "form",
          { onsubmit: submit },
          h("div", null, typeof body === "function" ? body() : body),
          problem(error),
          h(
            "div",
            { class: "actions end" },
            h("button", { type: "button", class: "quiet", onclick: () => handle.close() }, "Cancel"),
            h(
              "button",
              { type: "submit", class: danger ? "danger" : "primary", disabled: busy, autofocus: true },
              busy ? "…" : action,
            ),
          ),
        ),
    });
  });
}

/** Shows a short message for a while. kind: "ok", "error". */
export function toast(text, { kind = "ok" } = {}) {
  const place = document.getElementById("toasts");
  const one = document.createElement("p");
  one.className = `toast ${kind}`;
  one.textContent = text;
  place.append(one);
  announce(text);
  setTimeout(() => one.remove(), TOAST_MS);
}

/** Does something, says that it was done, and shows the error when it was not. Returns whether it was done. */
export async function attempt(run, done) {
  try {
    await run();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(`${error.title ?? "Error"}: ${error.detail || error.message}`, { kind: "error" });
    return false;
  }
}
