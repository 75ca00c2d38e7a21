/** The webhooks, and one of them: what it is told, how its last deliveries went, a test, a new secret. */

import { card, copyButton, facts, shown, stateBadge, timeOf } from "../components/basics.js";
import { attempt, openDialog } from "../components/dialog.js";
import { openForm } from "../components/resource-form.js";
import { ResourcePage, ResourcesPage, about, badge, button, ifMatch, linkTo, tableOr } from "../components/resource.js";
import { patch, post } from "../core/api.js";
import { define } from "../core/element.js";
import { tellingLine } from "../core/errors.js";
import { number, plural } from "../core/format.js";
import { h } from "../core/vdom.js";
import { CLUSTER_EVENT_NAME, EVENT_NAME } from "../core/words.js";

const DELIVERIES_SHOWN = 25;
const OVERLAP = { pointer: "/overlap", label: "Overlap", initial: "24h", help: "0s: the secret before ends at once" };

/** Returns whether a webhook is sent events, as a badge. */
function activeBadge({ active, gone, failures_in_a_row: failures }) {
  if (gone) return badge("failed", "✕", "gone (410)");
  if (!active) return badge("suspended", "‖", "paused");
  return failures ? badge("failed", "✕", `${number(failures)} failed in a row`) : badge("done", "✓", "active");
}

/** Returns what a webhook is told of by itself, in words. */
function eventsText({ events, cluster_events: ofCluster }) {
  return [...events, ...ofCluster].join(", ").replaceAll("_", " ") || "what jobs name it for";
}

/** Returns where a webhook sends to. */
function recipientsText({ url, smtp }) {
  return smtp ? smtp.to.join(", ") : url;
}

/** Shows a secret, this one time. */
function showWebhookSecret({ name, secret }) {
  if (!secret) return;
  openDialog({
    title: `The secret of ${name}`,
    body: (dialog) => [
      h("p", null, "It is shown this one time. The receiver checks the signatures of events with it."),
      h("p", { class: "once" }, h("code", null, secret), copyButton(secret, "Copy the secret")),
      h(
        "div",
        { class: "actions end" },
        button("I have it", () => dialog.close(), { class: "primary" }),
      ),
    ],
  });
}

const MADE = "whsec_…; empty: one is made, and shown once";
const SECRET = { pointer: "/secret", label: "Secret", type: "password", help: MADE };

const KIND = {
  pointer: "/kind",
  label: "Kind",
  initial: "webhook",
  help: "webhook: signed events for a program; slack: sentences, for Mattermost too; email: mails",
};

const WEBHOOK = {
  noun: "webhook",
  title: "Webhooks",
  says: "Who is told when runs end, and of other events.",
  path: "/v1/webhooks",
  ui: "/ui/webhooks",
  on: ["webhooks", "runs"],
  operations: "webhooks",
  named: "jobs name it in their field notify",
  fields: [
    {
      pointer: "/url",
      label: "Address",
      placeholder: "https://ops.example/hook",
      help: "of Slack it is hidden, and stays; of mails there is none",
    },
    {
      pointer: "/smtp",
      label: "Mail server",
      type: "json",
      rows: 3,
      placeholder: '{"host": "mail.example.com", "from": "raftsched@example.com", "to": ["ops@example.com"]}',
    },
    { pointer: "/at_most", label: "At most", type: "json", rows: 1, placeholder: '{"count": 10, "per": "1h"}' },
    {
      pointer: "/events",
      label: "Events it is told of without being named",
      type: "checks",
      options: EVENT_NAME,
    },
    {
      pointer: "/cluster_events",
      label: "Events of the cluster",
      type: "checks",
      options: CLUSTER_EVENT_NAME,
    },
    { pointer: "/page", label: "Page that messages link to" },
    { pointer: "/filter/namespace", label: "Of the namespace", help: "empty: of all; the filter is for these events" },
    { pointer: "/filter/owner", label: "Of the owner" },
    { pointer: "/filter/queue", label: "Of the queue" },
    { pointer: "/filter/labels", label: "With the labels", type: "pairs", rows: 2, placeholder: "team: fin" },
    { pointer: "/headers", label: "Headers", type: "pairs", rows: 2, placeholder: "X-Source: raftsched" },
    { pointer: "/timeout", label: "Time for an answer", placeholder: "15s" },
    {
      pointer: "/retry_delays",
      label: "Delays before it is sent again",
      type: "lines",
      rows: 2,
      placeholder: "5s, 5m",
    },
    { pointer: "/max_running", label: "Deliveries at one time", type: "number", min: 1, placeholder: "4" },
    { pointer: "/active", label: "Active", type: "checkbox", initial: true },
  ],
  onlyNew: [KIND, SECRET],
  body({ secret, retry_delays: delays, ...given }, present) {
    if ((present ?? given).kind !== "email" && !given.url) {
      throw Object.assign(new Error(), { errors: [{ pointer: "/url", detail: "is missing" }] });
    }
    return {
      ...(present && { kind: present.kind }),
      ...given,
      ...(secret && { secret }),
      retry_delays: delays.length ? delays : null,
    };
  },
  create: (name, body) => post("/v1/webhooks", { name, ...body }, { headers: { "If-None-Match": "*" } }),
  created: showWebhookSecret,
  deletion: "What waits to be sent is not sent any more. Refused while jobs name it in their field notify.",
  absent: "It may have been deleted.",
  empty: [
    "There are no webhooks.",
    "Create one to have another system told when runs fail, end, or become dead letters.",
  ],
  columns: [
    { title: "Webhook", cell: (one) => linkTo(WEBHOOK, one.name) },
    { title: "Now", cell: activeBadge },
    { title: "To", cell: recipientsText, class: "wide-only" },
    { title: "Events", cell: eventsText, class: "wide-only" },
    { title: "Waiting", cell: (one) => number(one.waiting), number: true },
    { title: "Last success", cell: (one) => timeOf(one.last_success_at) },
  ],
};

export class WebhooksPage extends ResourcesPage {
  kind = WEBHOOK;
}
define("rs-webhooks-page", WebhooksPage);

export class WebhookPage extends ResourcePage {
  kind = WEBHOOK;
  below = activeBadge;

  actions({ active, revision, kind }) {
    const change = async () => {
      await attempt(
        () => patch(this.path, { active: !active }, ifMatch(revision)),
        active ? "Nothing new is sent; what waits goes on waiting" : "It is active",
      );
      await this.resource.reload();
    };
    const test = async () => {
      await attempt(() => post(`${this.path}/test`), "A test event is on its way; see the deliveries");
      await this.#sent.reload();
    };
    return [
      this.may("test") ? button("Send a test", test) : null,
      this.may("rotate") && kind === "webhook" ? button("New secret", () => this.#rotate(revision)) : null,
      this.may("patch") ? button(active ? "Pause" : "Activate", change) : null,
    ];
  }

  #rotate(revision) {
    openForm({
      title: `A new secret for ${this.name}`,
      fields: [OVERLAP, SECRET],
      intro: "During the overlap events carry the signatures of both secrets, so that the receiver can change over.",
      action: "Change the secret",
      submit: async ({ overlap, secret }) => {
        const made = await post(
          `${this.path}/rotate`,
          { ...(overlap && { overlap }), ...(secret && { secret }) },
          ifMatch(revision),
        );
        await this.resource.reload();
        setTimeout(() => showWebhookSecret(made)); // above the form, which is about to be closed
      },
    });
  }

  parts(webhook) {
    const { filter, headers, dropped, smtp, at_most: most, left_out: leftOut, previous_secret_until: until } = webhook;
    const { labels, ...rest } = filter;
    const warning = (...words) => h("p", { class: "warning" }, words);
    const only = Object.entries({ ...rest, ...labels }).filter(([, value]) => value !== null);
    return [
      webhook.gone ? warning("Its receiver answered 410: it wants no more events. Activate it to send again.") : null,
      dropped
        ? warning(`${plural(dropped, "event")} not sent, because too many waited; lately `, timeOf(webhook.dropped_at))
        : null,
      h(
        "div",
        { class: "grid" },
        card(
          "What it is sent",
          facts([
            ["Kind", webhook.kind],
            ["To", recipientsText(webhook)],
            ["By", smtp && `${smtp.host}:${smtp.port} (${smtp.tls}), from ${smtp.from}`],
            ["Events", eventsText(webhook)],
            ["Of", webhook.events.length ? only.map((pair) => pair.join(" ")).join(", ") || "all jobs" : null],
            [
              "Headers",
              Object.entries(headers)
                .map((pair) => pair.join(": "))
                .join(", "),
            ],
          ]),
        ),
        card(
          "How",
          facts([
            ["Waiting", number(webhook.waiting)],
            ["Last success", timeOf(webhook.last_success_at)],
            ["Time for an answer", webhook.timeout],
            ["Sent again after", webhook.retry_delays.join(", ")],
            ["At one time", number(webhook.max_running)],
            ["At most", most && `${number(most.count)} in ${most.per}; ${plural(leftOut, "event")} left out since the last`],
          ]),
        ),
        about(webhook, [["Secret before holds until", until && timeOf(until)]]),
      ),
      this.#deliveries(),
    ];
  }

  get #sent() {
    return this.watch(`/v1/instances?namespace=_system&job=${this.name}&limit=${DELIVERIES_SHOWN}`, { on: ["runs"] });
  }

  #deliveries() {
    const link = (id, words) => h("a", { href: `/ui/runs/${id}` }, words);
    const columns = [
      { title: "Delivery", cell: ({ id, event }) => link(id, event?.type.split(".").pop().replace("_", " ") ?? id) },
      { title: "State", cell: (run) => stateBadge(run.state) },
      { title: "Attempts", cell: (run) => number(run.attempt), number: true },
      {
        title: "Of",
        cell: ({ event }) => (event?.subject?.includes("@") ? link(event.subject, event.subject) : ""),
        class: "wide-only",
      },
      { title: "Made", cell: (run) => timeOf(run.created_at) },
      { title: "Error", cell: (run) => tellingLine(run.error), class: "wide-only" },
    ];
    const advice = "Send a test to see what the receiver answers.";
    const list = ({ items }) => tableOr(columns, items, "Last deliveries", "Nothing was sent yet.", advice);
    return card("Last deliveries", shown(this.#sent, list));
  }
}
define("rs-webhook-page", WebhookPage);
