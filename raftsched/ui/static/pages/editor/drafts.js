/** What was typed and not sent yet, kept in this tab: also when the page is loaded again, or the token is refused. */

import { timeOf } from "../../components/basics.js";
import { h } from "../../core/vdom.js";

const PREFIX = "raftsched-draft ";

/** Returns the draft of an address, null when there is none. */
export function readDraft(address) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + address));
  } catch {
    return null; // no storage: drafts live as long as the page
  }
}

/** Keeps a draft of an address; null forgets it. */
export function keepDraft(address, draft) {
  try {
    if (draft === null) sessionStorage.removeItem(PREFIX + address);
    else sessionStorage.setItem(PREFIX + address, JSON.stringify(draft));
  } catch {
    // as above, or it is too large
  }
}

/** Returns what is said where a draft was found. */
export function draftNotice(at, drop) {
  return h(
    "div",
    { class: "notice row", role: "status" },
    h("span", null, "This is what you typed ", timeOf(at), " and did not send."),
    h("button", { type: "button", class: "small", onclick: drop }, "Drop it"),
  );
}
