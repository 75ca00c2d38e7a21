/** The cluster: its members, who led when, what is wrong, and a backup of it. */

import {
  asOf,
  card,
  copyButton,
  empty,
  facts,
  heading,
  loading,
  problem,
  shown,
  table,
  timeOf,
} from "../components/basics.js";
import { attempt, confirmDialog } from "../components/dialog.js";
import { termsChart } from "../charts/terms.js";
import { del, post } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { moment, number, plural } from "../core/format.js";
import { health } from "../core/health.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { backupCard } from "./cluster/backup.js";
import { findings } from "./cluster/doctor.js";
import { badges, clock, disk, slots, warnings } from "./cluster/parts.js";

const TERMS_MS = 14 * 86_400_000; // of leaderships in the picture
const TERMS_SHOWN = 8;
const WORKERS_SHOWN = 100;
const WORKER_COLUMNS = [
  { title: "Name", cell: (one) => h("a", { href: `/ui/runs?worker=${encodeURIComponent(one.name)}` }, one.name) },
  { title: "Runs", cell: (one) => `${number(one.running)} of ${number(one.slots)}`, number: true },
  { title: "Queues", cell: (one) => one.queues?.join(", ") ?? "all" },
  { title: "Last heard", cell: (one) => [timeOf(one.last_heartbeat_at), aside(one)] },
  { title: "Version", cell: (one) => one.version },
];

function aside({ trouble, quiet_since: since }) {
  if (trouble) return `: ${trouble}`;
  return since ? [", no poll open since ", timeOf(since), ": it is given no new runs"] : "";
}

export class ClusterPage extends Page {
  #backup = { running: false, got: 0, error: null, done: false };
  #allTerms = false;

  connected() {
    this.on(session, "change", () => this.update());
  }

  render() {
    const cluster = this.watch("/v1/cluster", { on: ["cluster"], every: 2_000 });
    const { data } = cluster;
    if (!data) return [heading("Cluster"), cluster.error ? problem(cluster.error) : loading()];
    const reload = () => cluster.reload();
    return [
      heading("Cluster", {
        actions: [h("a", { class: "button", href: "/ui/cluster/settings" }, "Settings"), pauseButton(data, reload)],
      }),
      asOf(cluster),
      warnings(data),
      card("Members", members(data, reload)),
      data.waiting.length ? card("Asking to be let in", waitingNodes(data, reload)) : null,
      this.#workers(),
      this.#terms(data),
      session.may("doctor_get") ? findings(this) : null,
      session.may("snapshot_get") ? backupCard(this, this.#backup, data) : null,
      card(
        "About",
        facts([
          ["Leader", data.leader ?? "none"],
          ["Term", number(data.term)],
          [
            "Cluster",
            data.cluster_id
              ? h("span", { class: "mono" }, data.cluster_id, copyButton(data.cluster_id, "Copy the id of the cluster"))
              : null,
          ],
          ["This page is from", data.node],
        ]),
      ),
    ];
  }

  #workers() {
    const { data } = this.watch(`/v1/workers?limit=${WORKERS_SHOWN}`, { every: 5_000 });
    if (!data?.items.length) return null;
    const more = data.next ? h("p", { class: "muted" }, `The first ${WORKERS_SHOWN}, by name.`) : null;
    return card("Remote workers", [
      table(WORKER_COLUMNS, data.items, { key: (one) => one.name, caption: "Remote workers" }),
      more,
    ]);
  }

  #terms(cluster) {
    const terms = this.watch("/v1/cluster/terms", { on: ["cluster"] });
    const now = Date.now();
    const count = terms.data?.items.length ?? 0;
    const turn = () => ((this.#allTerms = !this.#allTerms), this.update());
    const more =
      count > TERMS_SHOWN
        ? h(
            "button",
            { type: "button", class: "small", onclick: turn },
            this.#allTerms ? "Fewer" : `All ${number(count)}`,
          )
        : null;
    return card(
      "Leaderships",
      shown(terms, ({ items }) => {
        if (!items.length) return empty("Nobody has led yet", "The first leadership is written down when it begins.");
        const last = cluster.nodes.find((node) => node.id === items[0].leader);
        const ended = cluster.leader ? null : (moment(last?.last_heartbeat_at) ?? (health.led || now));
        const rows = this.#allTerms ? items : items.slice(0, TERMS_SHOWN);
        return [
          termsChart(items, { from: now - TERMS_MS, now, ended }),
          table(
            [
              { title: "Term", cell: (one) => number(one.term) },
              {
                title: "Leader",
                cell: (one) =>
                  one.term === cluster.term && one.leader === cluster.leader
                    ? [one.leader, " ", h("span", { class: "badge state-running" }, "★ now")]
                    : one.leader,
              },
              { title: "Since", cell: (one) => timeOf(one.at) },
              { title: "From log entry", cell: (one) => number(one.index), number: true },
            ],
            rows,
            { key: (one) => one.term, caption: "Leaderships, the newest first" },
          ),
        ];
      }),
      { actions: more },
    );
  }
}
define("rs-cluster-page", ClusterPage);

function pauseButton({ paused }, reload) {
  if (!session.may(paused ? "settings_resume" : "settings_pause")) return null;
  if (paused)
    return h(
      "button",
      {
        type: "button",
        class: "primary",
        onclick: () => attempt(() => post("/v1/cluster/resume"), "Resumed").then(reload),
      },
      "Resume",
    );
  const ask = () =>
    confirmDialog({
      title: "Pause the cluster?",
      body: "No job is fired and no run is started on any node until it is resumed; what runs goes on. What was due meanwhile is run as each job's misfire policy says.",
      action: "Pause",
      danger: true,
      run: () => post("/v1/cluster/pause"),
    }).then(reload);
  return h("button", { type: "button", onclick: ask }, "Pause …");
}

function members(cluster, reload) {
  const columns = [
    {
      title: "Node",
      cell: (node) => [h("strong", null, node.id), h("div", { class: "muted nowrap" }, node.http ?? "–")],
    },
    {
      title: "Role",
      cell: (node) => [badges(node), h("div", { class: "muted nowrap" }, node.voter ? "votes" : "does not vote yet")],
    },
    {
      title: h("span", { title: "Entries of the log that it has yet to apply" }, "Lag"),
      label: "Lag",
      cell: (node) => number(node.lag),
      number: true,
    },
    { title: "Clock", cell: clock, number: true },
    { title: "Slots", cell: slots },
    { title: "Disk", cell: disk },
    { title: "Last heard", cell: (node) => timeOf(node.last_heartbeat_at) },
    { title: "Version", cell: (node) => node.version ?? "–" },
    {
      title: h("span", { class: "sr" }, "Actions"),
      class: "nowrap",
      cell: (node) => h("div", { class: "actions" }, actionsOf(node, cluster, reload)),
    },
  ];
  return h("div", { class: "members" }, table(columns, cluster.nodes, { key: (node) => node.id, caption: "Members" }));
}

function actionsOf(node, cluster, reload) {
  const small = (words, onclick) =>
    h("button", { type: "button", class: "small", key: words, onclick, "aria-label": `${words} ${node.id}` }, words);
  const path = encodeURIComponent(node.id);
  const drain = async (action, done) => (await attempt(() => post(`/v1/nodes/${path}/${action}`), done)) && reload();
  const found = [];
  if (session.may("nodes_drain")) {
    if (node.drained) found.push(small("Undrain", () => drain("undrain", `${node.id} is given runs again`)));
    else found.push(small("Drain", () => drain("drain", `${node.id} is given nothing new`)));
  }
  if (session.may("members_transfer") && node.voter && node.alive && cluster.leader && node.id !== cluster.leader) {
    found.push(
      small("Lead", () =>
        confirmDialog({
          title: `Let ${node.id} lead?`,
          body: `${cluster.leader} hands leadership over. Nothing is lost: what is asked meanwhile goes on to ${node.id}.`,
          action: "Hand over",
          run: () => post("/v1/cluster/leader", { to: node.id }),
        }).then(reload),
      ),
    );
  }
  if (session.may("members_remove") && cluster.nodes.length > 1) {
    const voters = cluster.nodes.filter((one) => one.voter && one.id !== node.id);
    const alive = voters.filter((one) => one.alive).length;
    const left = voters.length
      ? `${plural(voters.length, "voting member")} would be left, ${alive} of which answer; ${Math.floor(voters.length / 2) + 1} are needed.`
      : "";
    found.push(
      small("Remove", () =>
        confirmDialog({
          title: `Remove ${node.id}?`,
          body: [
            h("p", null, left),
            h(
              "p",
              null,
              "Its runs are run again elsewhere when its session is over. It can come back with an empty disk only.",
            ),
          ],
          action: `Remove ${node.id}`,
          danger: true,
          run: () => del(`/v1/cluster/members/${path}`),
        }).then(reload),
      ),
    );
  }
  return found;
}

function waitingNodes(cluster, reload) {
  const replaces = (one) => one.why !== "new";
  const admit = (one) =>
    confirmDialog({
      title: replaces(one) ? `Replace ${one.id}?` : `Let ${one.id} in?`,
      body: replaces(one)
        ? `The member ${one.id} is replaced by this one, which has another disk: what the old disk promised is given up.`
        : `${one.id} gets everything first, and votes by itself when it has caught up.`,
      action: replaces(one) ? "Replace" : "Let in",
      danger: replaces(one),
      run: () => post("/v1/cluster/members", { id: one.id, store: one.store, replace: replaces(one) }),
    }).then(reload);
  const columns = [
    { title: "Node", cell: (one) => h("strong", null, one.id) },
    { title: "Why", cell: (one) => one.why.replaceAll("-", " ") },
    { title: "Addresses", cell: (one) => `${one.http} · ${one.raft}` },
    { title: "Disk", cell: (one) => h("span", { class: "mono" }, one.store.slice(0, 8)) },
    {
      title: "",
      cell: (one) =>
        session.may("members_add")
          ? h(
              "button",
              { type: "button", class: "small", onclick: () => admit(one) },
              replaces(one) ? "Replace …" : "Let in …",
            )
          : null,
    },
  ];
  return table(columns, cluster.waiting, { key: (one) => one.id, caption: "Nodes that ask to be let in" });
}
