/** Tokens: who may do what, whether requests need one, and whose logins are taken beside them. */

import { card, copyButton, empty, facts, heading, shown, table, timeOf } from "../components/basics.js";
import { confirmDialog } from "../components/dialog.js";
import { bindListKeys } from "../components/list-keys.js";
import { tabs } from "../components/tabs.js";
import { del } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { createToken, turnOff, turnOn } from "./token-dialogs.js";

const TOKENS_PAGE = 200;
const MOST = 1000;

export class TokensPage extends Page {
  connected() {
    this.on(session, "change", () => this.update());
    bindListKeys(this, "tbody tr", this.signal);
  }

  render() {
    const create = session.may("tokens_create")
      ? h("button", { type: "button", class: "primary", onclick: createToken }, "New token")
      : null;
    if (!session.may("tokens_list_all")) {
      return [
        heading("Tokens"),
        empty("Only admins see tokens.", "Ask one of them for what you need; your own is behind your name, above."),
      ];
    }
    const parts = [
      ["tokens", "Of this cluster", () => this.#list()],
      ["logins", "Of an issuer", () => this.#issuer()],
    ];
    const choose = (tab) => this.setQuery({ tab: tab === "tokens" ? null : tab });
    return [
      heading("Tokens", { actions: create }),
      this.#access(),
      tabs(parts, this.query.get("tab") ?? "tokens", choose),
    ];
  }

  #access() {
    const resource = this.watch("/v1/cluster/access", { on: ["tokens"] });
    return card(
      "Access",
      shown(resource, ({ required }) => [
        h(
          "p",
          null,
          required
            ? "Requests need a token. Whoever shows none is refused."
            : "Requests need no token: everybody who reaches a node may do everything. Tokens made now are shown in the audit, and not asked for.",
        ),
        session.may("tokens_put_access")
          ? h(
              "div",
              { class: "actions end" },
              h(
                "button",
                { type: "button", onclick: required ? turnOff : turnOn },
                required ? "Need no tokens …" : "Need tokens …",
              ),
            )
          : null,
      ]),
    );
  }

  #list() {
    const all = this.query.get("state") === "all";
    const most = Math.min(MOST, Number(this.query.get("most")) || TOKENS_PAGE);
    const resource = this.watch(`/v1/tokens?limit=${most}`, { on: ["tokens"] });
    const rows = (resource.data?.items ?? []).filter((token) => all || token.state === "active");
    const filter = h(
      "label",
      null,
      h("input", {
        type: "checkbox",
        checked: all,
        onchange: (event) => this.setQuery({ state: event.target.checked ? "all" : null }),
      }),
      " also expired and revoked ones",
    );
    return card(
      "Tokens",
      shown(resource, ({ items, next }) => [
        rows.length
          ? table(TOKEN_COLUMNS, rows, { key: (token) => token.id, caption: "Tokens" })
          : empty(
              items.length ? "No token is active." : "There is no token yet.",
              "A token is a name in the audit, a role, and the namespaces that it is for.",
            ),
        next && most < MOST
          ? h(
              "div",
              { class: "actions end" },
              h("button", { type: "button", onclick: () => this.setQuery({ most: MOST }) }, "Show more"),
            )
          : null,
        next && most >= MOST
          ? h(
              "p",
              { class: "muted" },
              `The ${plural(MOST, "oldest token")}; the others are listed by `,
              h("code", null, "raftsched tokens list"),
            )
          : null,
      ]),
      { actions: filter },
    );
  }

  #issuer() {
    const resource = this.watch("/v1/cluster/oidc", { on: ["tokens"] });
    if (resource.error?.status === 404) {
      const command = "raftsched oidc set --help";
      return card(
        "Logins of an issuer",
        h(
          "p",
          { class: "row" },
          "No OpenID Connect issuer's tokens are taken. To set one: ",
          h("code", null, command),
          copyButton(command),
        ),
      );
    }
    return card(
      "Logins of an issuer",
      shown(resource, (oidc) => [
        facts([
          ["Issuer", oidc.issuer],
          ["Audience", oidc.audience],
          ["Client", oidc.client_id],
          ["Name from", oidc.username_claim],
          ["Algorithms", oidc.algorithms.join(", ")],
        ]),
        table(RULES, oidc.rules, { caption: "Roles by claims" }),
      ]),
    );
  }
}
define("rs-tokens-page", TokensPage);

const TOKEN_COLUMNS = [
  { title: "Name", cell: (token) => h("strong", null, token.name) },
  {
    title: "State",
    cell: (token) => h("span", { class: `badge ${token.state === "active" ? "state-done" : ""}` }, token.state),
  },
  { title: "May", cell: (token) => rights(token) },
  { title: "Made", cell: (token) => [timeOf(token.created_at), token.created_by ? ` by ${token.created_by}` : ""] },
  { title: "Ends", cell: (token) => ends(token) },
  {
    title: "Requests",
    number: true,
    cell: (token) => (token.rate ? `${number(token.rate.count)} in ${token.rate.per}` : ""),
  },
  {
    title: h("span", { class: "sr" }, "Actions"),
    cell: (token) => (token.state === "active" && session.may("tokens_delete") ? revokeButton(token) : ""),
  },
];

const RULES = [
  { title: "Claim", cell: (rule) => h("code", null, rule.claim) },
  { title: "Value", cell: (rule) => h("code", null, rule.value) },
  { title: "Role", cell: (rule) => rule.role },
  { title: "In", cell: (rule) => rule.namespaces?.join(", ") ?? "all namespaces" },
];

function rights(token) {
  let own = token.namespaces ? `${token.role} in ${token.namespaces.join(", ")}` : token.role;
  if (token.queues) own += `, queues ${token.queues.join(", ")}`;
  return [own, ...token.grants.map((grant) => `${grant.role} in ${grant.namespace}`)].map((one) => h("div", null, one));
}

function ends(token) {
  if (token.revoked_at)
    return ["revoked ", timeOf(token.revoked_at), token.revoked_by ? ` by ${token.revoked_by}` : ""];
  return token.expires_at ? timeOf(token.expires_at) : "never";
}

function revokeButton(token) {
  const own = session.who?.kind === "token" && session.who.name === token.name;
  const revoke = () =>
    confirmDialog({
      title: `Revoke ${token.name}?`,
      body: `Every node refuses it as soon as it knows; what is read with it ends.${own ? " It is your own: you will be asked for another one." : ""}`,
      action: "Revoke",
      danger: true,
      run: () => del(`/v1/tokens/${token.id}`),
    });
  return h(
    "button",
    { type: "button", class: "quiet small", "aria-label": `Revoke ${token.name}`, onclick: revoke },
    "Revoke",
  );
}
