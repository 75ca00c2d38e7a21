/** The namespaces, and one of them: its owner, defaults, limits against what is used, secrets and jobs. */

import { card, facts, shown, timeOf } from "../components/basics.js";
import { confirmDialog } from "../components/dialog.js";
import { openForm } from "../components/resource-form.js";
import {
  ResourcePage,
  ResourcesPage,
  about,
  badge,
  button,
  gauge,
  ifMatch,
  linkTo,
  tableOr,
} from "../components/resource.js";
import { del, post, put } from "../core/api.js";
import { define } from "../core/element.js";
import { bytes, number } from "../core/format.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { confirmSweep } from "./sweeps.js";

const MOST_NAMESPACES = 1000; // runs that are counted, secrets that are shown

const limit = (name, label, help, min = 1) => ({ pointer: `/limits/${name}`, label, help, type: "number", min });

/** Returns whether a namespace is declared, as a badge. */
function declaredBadge({ declared }) {
  return declared ? badge("done", "✓", "declared") : badge("none", "○", "not declared");
}

const NAMESPACE = {
  noun: "namespace",
  title: "Namespaces",
  says: "Jobs may name any namespace. A declared one gives its jobs an owner, defaults and limits.",
  path: "/v1/namespaces",
  ui: "/ui/namespaces",
  on: ["namespaces", "jobs", "secrets"],
  operations: "namespaces",
  scoped: true,
  named: "jobs name it",
  intro: "A field that is empty does not limit.",
  fields: [
    { pointer: "/description", label: "Description" },
    { pointer: "/owner", label: "Owner", help: "a person or team" },
    limit("max_jobs", "Jobs", null, 0),
    limit("max_running", "Runs at one time"),
    limit("max_starts_per_minute", "Starts in a minute"),
    limit("output_bytes", "Bytes of output", "kept on each node; the oldest goes first"),
    limit("output_max_bytes", "Bytes of output of an attempt", "in place of the setting of this name"),
    {
      pointer: "/limits/output_keep",
      label: "Output is kept for",
      placeholder: "7d",
      help: "in place of the setting output_keep",
    },
    limit("output_copies", "Output is on", "1 or 2 nodes, in place of the setting of this name"),
    {
      pointer: "/defaults",
      label: "Defaults of its jobs",
      type: "json",
      rows: 6,
      placeholder: '{"timeout": "10m", "queue": "reports"}',
      help: "as in a job, for jobs that are written from then on",
    },
  ],
  body: (given) => given,
  deletion: "Its owner, defaults and limits go. Refused while it holds jobs or secrets.",
  absent: "Nothing is in it. Declare it here, or create a job in it.",
  empty: [
    "There are no namespaces yet.",
    "The first job makes one. Create one to give its jobs an owner, defaults and limits.",
  ],
  columns: [
    { title: "Namespace", cell: (one) => linkTo(NAMESPACE, one.name) },
    { title: "Declared", cell: declaredBadge, class: "wide-only" },
    { title: "Owner", cell: (one) => one.owner ?? "" },
    { title: "Jobs", cell: (one) => gauge(one.jobs, one.limits.max_jobs) },
    { title: "Secrets", cell: (one) => number(one.secrets), number: true },
    { title: "Description", cell: (one) => one.description ?? "", class: "wide-only" },
  ],
};

export class NamespacesPage extends ResourcesPage {
  kind = NAMESPACE;
}
define("rs-namespaces-page", NamespacesPage);

export class NamespacePage extends ResourcePage {
  kind = NAMESPACE;

  actions() {
    const may = session.may("operations_act", this.name) && session.may("kills_kill_matching", this.name);
    return may ? [button("Stop everything …", () => this.#stop())] : [];
  }

  /** Pauses all jobs and ends all runs. */
  async #stop() {
    const filter = { namespace: this.name };
    await confirmSweep("kill", filter, "have not ended, and all jobs of the namespace are paused until somebody resumes them", {
      title: `Stop everything of ${this.name}?`,
      before: () => post("/v1/jobs:actions", { action: "pause", filter }),
    });
    await this.resource.reload();
  }

  below(namespace) {
    return [declaredBadge(namespace), h("p", { class: "muted" }, namespace.description)];
  }

  parts(namespace) {
    const { limits, defaults, owner } = namespace;
    const most = (value, format = number) => (value === null ? "no limit" : `at most ${format(value)}`);
    const of = (value, format) => (value === null ? "as the settings have it" : format(value));
    const text = (value) => h("code", null, typeof value === "string" ? value : JSON.stringify(value));
    const words = Object.entries(defaults).map(([name, value]) => [name, text(value)]);
    return [
      h(
        "div",
        { class: "grid" },
        card(
          "Use and limits",
          facts([
            ["Jobs", gauge(namespace.jobs, limits.max_jobs)],
            ["Runs at one time", limits.max_running === null ? "no limit" : gauge(this.#running(), limits.max_running)],
            ["Starts in a minute", most(limits.max_starts_per_minute)],
            ["Output on each node", most(limits.output_bytes, bytes)],
            ["Output of an attempt", of(limits.output_max_bytes, bytes)],
            ["Output is kept for", of(limits.output_keep, (text) => text)],
            ["Output is on", of(limits.output_copies, (copies) => (copies === 1 ? "one node" : `${copies} nodes`))],
          ]),
        ),
        card(
          "Defaults",
          words.length ? facts(words) : h("p", { class: "muted" }, "Its jobs have the cluster's defaults."),
        ),
        about(namespace, [["Owner", owner ?? "nobody"]]),
      ),
      session.may("secrets_list_all", this.name) ? this.#secrets() : null,
      this.jobsOf(
        "namespace",
        "No job is in this namespace.",
        h("a", { href: `/ui/jobs/new?namespace=${this.name}` }, "Create one"),
      ),
    ];
  }

  #running() {
    const query = new URLSearchParams({ namespace: this.name, state: "LAUNCHED,RUNNING", limit: MOST_NAMESPACES });
    return this.watch(`/v1/instances?${query}`, { on: ["runs"] }).data?.items.length ?? null;
  }

  get #held() {
    return this.watch(`/v1/secrets?namespace=${this.name}&limit=${MOST_NAMESPACES}`, { on: ["secrets"] });
  }

  #secrets() {
    const may = session.may("secrets_put", this.name);
    const columns = [
      { title: "Secret", cell: (one) => h("code", null, one.name) },
      { title: "Revision", cell: (one) => number(one.revision), number: true, class: "wide-only" },
      { title: "Changed", cell: (one) => timeOf(one.modified_at) },
      { title: "Created", cell: (one) => timeOf(one.created_at), class: "wide-only" },
      { title: "Shared", cell: (one) => (one.shared ? "with all namespaces" : "no"), class: "wide-only" },
      { title: "At rest", cell: (one) => (one.sealed ? "encrypted" : "as it is"), class: "wide-only" },
    ];
    const actions = (one) => [
      button("New value", () => this.#set(one), { class: "small", "aria-label": `New value of ${one.name}` }),
      " ",
      button("Delete", () => this.#delete(one), { class: "small", "aria-label": `Delete ${one.name}` }),
    ];
    if (may) columns.push({ title: "", cell: actions });
    const advice = "A secret is a value that jobs refer to by its name; nobody can read it back.";
    const list = ({ items }) => tableOr(columns, items, "Secrets", "There are no secrets.", advice);
    return card("Secrets", shown(this.#held, list), { actions: may ? button("New secret", () => this.#set()) : null });
  }

  #pathOf(name) {
    return `/v1/namespaces/${this.name}/secrets/${encodeURIComponent(name)}`;
  }

  #set(secret) {
    const fields = [
      { pointer: "/name", label: "Name", required: true, help: "jobs refer to it by this" },
      { pointer: "/value", label: "Value", type: "password", required: true, help: "nobody is shown it again" },
      { pointer: "/shared", label: "Shared: jobs of other namespaces may use it", type: "checkbox" },
    ];
    openForm({
      title: secret ? `New value of ${secret.name}` : "New secret",
      fields: secret ? fields.slice(1) : fields,
      row: secret,
      intro: "Runs that start from then on get this value.",
      submit: async ({ name, ...body }) => {
        await put(this.#pathOf(secret?.name ?? name ?? ""), body, ifMatch(secret?.revision));
        await this.#held.reload();
      },
    });
  }

  async #delete({ name, revision }) {
    let force = false;
    const box = h("input", { type: "checkbox", onchange: (event) => (force = event.target.checked) });
    await confirmDialog({
      title: `Delete the secret ${name}?`,
      body: [
        h("p", null, "Its value is lost for good."),
        h("label", null, box, " also while jobs refer to it: their runs fail then"),
      ],
      action: "Delete",
      danger: true,
      run: () => del(this.#pathOf(name), { ...ifMatch(revision), query: force ? { force } : {} }),
    });
    await this.#held.reload();
  }
}
define("rs-namespace-page", NamespacePage);
