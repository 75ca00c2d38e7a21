/** Dialogs of the tokens' page: making a token, showing its secret once, and whether tokens are needed. */

import { copyButton, problem } from "../components/basics.js";
import { confirmDialog, openDialog, toast } from "../components/dialog.js";
import { post, put } from "../core/api.js";
import { DAY_MS, number, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";

const TOKEN_ROLES = [
  ["viewer", "viewer: reads"],
  ["editor", "editor: and changes and runs jobs"],
  ["operator", "operator: and queues, calendars, nodes, audit"],
  ["admin", "admin: everything"],
  ["worker", "worker: takes runs, reads nothing"],
];
const TOKEN_ENDS = [
  ["", "never"],
  [1, "in a day"],
  [30, "in 30 days"],
  [90, "in 90 days"],
  [365, "in a year"],
];

/** Asks for a new token, makes it, and shows its secret. */
export function createToken() {
  let grants = [];
  let error = null;
  let busy = false;
  let added = 0;
  const form = openDialog({ title: "New token", body: fields });

  function add() {
    grants = [...grants, { key: ++added }];
    form.update();
  }

  function fields() {
    const wrong = (pointer) =>
      error?.errors?.filter((one) => one.pointer === pointer || one.pointer?.startsWith(`${pointer}/`));
    return h(
      "form",
      { onsubmit: submit },
      field(
        "token-name",
        "Name",
        { name: "name", required: true, autocomplete: "off", autofocus: true },
        "Stands in the audit for whoever has it.",
        wrong("/name"),
      ),
      select("token-role", "Role", "role", TOKEN_ROLES, wrong("/role")),
      field(
        "token-namespaces",
        "Namespaces",
        { name: "namespaces", autocomplete: "off", placeholder: "all" },
        "Names with commas between; empty for all.",
        wrong("/namespaces"),
      ),
      field(
        "token-queues",
        "Queues",
        { name: "queues", autocomplete: "off", placeholder: "all" },
        "Of a worker.",
        wrong("/queues"),
      ),
      h(
        "fieldset",
        { class: "field" },
        h("legend", null, "Higher roles in some namespaces"),
        grants.map((grant, at) =>
          h(
            "div",
            { class: "row", key: grant.key },
            h("input", {
              name: "grant",
              required: true,
              autocomplete: "off",
              "aria-label": `Namespace ${at + 1}`,
              placeholder: "namespace",
            }),
            h(
              "select",
              { name: "grant-role", "aria-label": `Role in namespace ${at + 1}` },
              TOKEN_ROLES.slice(0, 3).map(([role]) => h("option", { value: role }, role)),
            ),
            h(
              "button",
              {
                type: "button",
                class: "quiet small",
                "aria-label": `Remove namespace ${at + 1}`,
                onclick: () => remove(grant),
              },
              "✕",
            ),
          ),
        ),
        h("div", null, h("button", { type: "button", class: "small", onclick: add }, "Add a namespace")),
        errorsOf("token-grants", wrong("/grants")),
      ),
      select("token-ends", "Ends", "ends", TOKEN_ENDS, wrong("/expires_at")),
      h(
        "div",
        { class: "row" },
        field(
          "token-count",
          "Requests",
          { name: "count", inputmode: "numeric", pattern: "[0-9]*", placeholder: "as the settings say" },
          null,
          wrong("/rate"),
        ),
        field("token-per", "in each", { name: "per", value: "1s", autocomplete: "off" }, null, null),
      ),
      error && !error.errors?.length ? problem(error) : null,
      h(
        "div",
        { class: "actions end" },
        h("button", { type: "button", class: "quiet", onclick: () => form.close() }, "Cancel"),
        h("button", { type: "submit", class: "primary", disabled: busy }, "Create"),
      ),
    );
  }

  function remove(grant) {
    grants = grants.filter((one) => one !== grant);
    form.update();
  }

  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    const body = tokenOf(new FormData(event.target));
    busy = true;
    form.update();
    try {
      const made = await post("/v1/tokens", body);
      form.close();
      showSecret(made);
    } catch (failure) {
      error = failure;
      busy = false;
      form.update();
    }
  }
}

/** Returns the body of a request that makes the token of a form. */
export function tokenOf(given, now = Date.now()) {
  const body = { name: given.get("name").trim(), role: given.get("role") };
  for (const name of ["namespaces", "queues"]) {
    const names = given
      .get(name)
      .split(/[\s,]+/)
      .filter(Boolean);
    if (names.length) body[name] = names;
  }
  const roles = given.getAll("grant-role");
  const grants = given.getAll("grant").map((namespace, at) => ({ namespace: namespace.trim(), role: roles[at] }));
  if (grants.length) body.grants = grants;
  if (given.get("ends")) body.expires_at = new Date(now + Number(given.get("ends")) * DAY_MS).toISOString();
  if (given.get("count")) body.rate = { count: Number(given.get("count")), per: given.get("per").trim() };
  return body;
}

function showSecret(made) {
  openDialog({
    title: `The token ${made.name}`,
    body: (dialog) => [
      h("p", null, "Copy its secret now: it is shown this once, and kept nowhere."),
      secretText(made.secret),
      h(
        "div",
        { class: "actions end" },
        h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "I have it"),
      ),
    ],
  });
}

function secretText(secret) {
  return h("p", { class: "row" }, h("code", { class: "secret" }, secret), copyButton(secret, "Copy the secret"));
}

/** Asks whether requests shall need no token any more. */
export function turnOff() {
  return confirmDialog({
    title: "Need no tokens any more?",
    body: "Everybody who reaches a node may do everything then. Tokens stay, and are not looked at.",
    action: "Turn tokens off",
    danger: true,
    run: () => put("/v1/cluster/access", { required: false }),
  });
}

/** Asks for the first admin, makes it and turns tokens on, and goes on with its token. */
export function turnOn() {
  if (session.who?.kind === "token" && session.who.role === "admin" && !session.who.expires_at) {
    return confirmDialog({
      title: "Need tokens from now on?",
      body: `You go on as ${session.who.name}. Whoever shows no token is refused at once; so are clients that have none yet.`,
      action: "Turn tokens on",
      run: () => put("/v1/cluster/access", { required: true }),
    });
  }
  if (!crypto.subtle) {
    return openDialog({
      title: "Need tokens from now on?",
      body: () => [
        h(
          "p",
          null,
          "This page came over plain HTTP from another machine: a secret must not be made here. On a node's machine:",
        ),
        h(
          "p",
          { class: "row" },
          h("code", null, "raftsched tokens bootstrap"),
          copyButton("raftsched tokens bootstrap"),
        ),
      ],
    });
  }
  const secret = newSecret();
  let name = "admin";
  let keep = false;
  let made = null;
  return confirmDialog({
    title: "Need tokens from now on?",
    body: () =>
      h(
        "div",
        { class: "narrow" },
        h(
          "p",
          null,
          "Whoever shows no token is refused at once. This is the first admin's; it is shown this once, and kept nowhere:",
        ),
        secretText(secret),
        field("admin-name", "Name of the admin", {
          value: name,
          required: true,
          oninput: (event) => (name = event.target.value),
        }),
        h("label", null, h("input", { type: "checkbox", required: true }), " I have copied the secret"),
        h(
          "label",
          null,
          h("input", { type: "checkbox", onchange: (event) => (keep = event.target.checked) }),
          " keep tokens that were made while none were needed (anybody could make them)",
        ),
      ),
    action: "Turn tokens on",
    run: async () => {
      const sha256 = await digestOf(secret);
      made ??= await put("/v1/cluster/access", { required: true, admin: { name: name.trim(), sha256 }, keep });
      await session.signIn(secret);
      const revoked = made.found?.tokens.filter((token) => token.state === "revoked").length ?? 0;
      toast(
        `Requests need a token now. ${plural(revoked, "token")} revoked, ${number(made.found?.jobs ?? 0)} jobs found.`,
      );
    },
  });
}

/** Returns a new secret: 256 random bits, as the API makes them. */
export function newSecret() {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `rs_${text}`;
}

async function digestOf(secret) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function field(id, label, props, help, errors) {
  const described = [help && `${id}-help`, errors?.length && `${id}-error`].filter(Boolean).join(" ");
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h("input", { id, "aria-describedby": described || null, "aria-invalid": errors?.length ? "true" : null, ...props }),
    help ? h("p", { class: "help", id: `${id}-help` }, help) : null,
    errorsOf(id, errors),
  );
}

function select(id, label, name, options, errors) {
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h(
      "select",
      { id, name },
      options.map(([value, text]) => h("option", { value }, text)),
    ),
    errorsOf(id, errors),
  );
}

function errorsOf(id, errors) {
  return errors?.length
    ? h("p", { class: "error", id: `${id}-error`, role: "alert" }, errors.map((one) => one.detail).join("; "))
    : null;
}
