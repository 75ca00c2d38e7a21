/** The queues that have limits, and one of them: what runs and waits, and what holds the rest. */

import { card, facts } from "../components/basics.js";
import { attempt } from "../components/dialog.js";
import { ResourcePage, ResourcesPage, about, badge, button, gauge, ifMatch, linkTo } from "../components/resource.js";
import { patch } from "../core/api.js";
import { define } from "../core/element.js";
import { number, plural } from "../core/format.js";
import { h } from "../core/vdom.js";

const SHUT = { paused: ["‖", "paused"], full: ["■", "full"], rate: ["◷", "rate used up"] };

/** Returns why nothing more of a queue may start now, as a badge. */
function shutBadge({ shut }) {
  return shut ? badge("waiting", ...SHUT[shut]) : badge("done", "✓", "open");
}

/** Returns how many wait, with a plus where they were not all counted. */
function waitingText(queue) {
  return number(queue.waiting) + (queue.waiting_exact ? "" : "+");
}

/** Returns a rate in words. */
function rateText({ rate }) {
  return rate ? `${number(rate.count)} starts per ${rate.per}` : "no limit";
}

const QUEUE = {
  noun: "queue",
  title: "Queues",
  says: "Jobs may name any queue; one that is not here has no limits.",
  path: "/v1/queues",
  ui: "/ui/queues",
  on: ["queues", "runs"],
  operations: "queues",
  named: "jobs name it in their field queue",
  intro: "A field that is empty does not limit.",
  fields: [
    { pointer: "/max_running", label: "Runs at one time", type: "number", min: 1 },
    { pointer: "/rate/count", label: "Starts in each period", type: "number", min: 1 },
    { pointer: "/rate/per", label: "Period", placeholder: "1m", help: "such as 30s, 1m or 1h" },
    { pointer: "/paused", label: "Paused: nothing more of it starts", type: "checkbox" },
  ],
  body: ({ rate, ...limits }) => ({ ...limits, rate: rate.count === null && rate.per === null ? null : rate }),
  deletion: "Its limits go; what waits in it goes on without.",
  absent: "Jobs may name it all the same: it has no limits. Create it to bound how many of its runs go at one time.",
  empty: ["No queue has limits.", "Create one, so that its runs take only so many slots, or start only so often."],
  columns: [
    { title: "Queue", cell: (queue) => linkTo(QUEUE, queue.name) },
    { title: "Now", cell: shutBadge },
    { title: "Running", cell: (queue) => gauge(queue.running, queue.max_running) },
    { title: "Waiting", cell: waitingText, number: true },
    { title: "Rate", cell: rateText, class: "wide-only" },
  ],
};

export class QueuesPage extends ResourcesPage {
  kind = QUEUE;
}
define("rs-queues-page", QueuesPage);

/**
 * Returns what keeps runs of a queue from starting, as sentences, the first to go first.
 *
 * @param {object|undefined} cluster what /v1/cluster says
 */
export function obstacles(queue, cluster) {
  const found = [];
  const { paused, shut, running, max_running: most } = queue;
  if (paused) found.push("The queue is paused: nothing more of it starts.");
  else if (shut === "full") found.push(`The queue is full: ${number(running)} of ${number(most)} run.`);
  else if (shut === "rate") found.push(`Its rate is used up: ${rateText(queue)}.`);
  if (!cluster) return found;
  if (!cluster.leader) {
    return [...found, cluster.waits_for ?? "The cluster has no leader now; nothing starts without one."];
  }
  if (cluster.paused) found.push("The cluster is paused: nothing is started on any node.");
  const able = cluster.nodes.filter(
    (one) => one.alive && one.voter && one.session_open && !one.drained && !one.trouble,
  );
  const followers = able.filter((node) => node.id !== cluster.leader);
  const taking = followers.length ? followers : able; // the leader runs jobs only where nobody else can
  if (!taking.length) {
    found.push("No node starts runs now: each is drained, down, or in trouble.");
  } else if (taking.every((node) => node.running >= node.slots)) {
    const slots = taking.reduce((sum, node) => sum + node.slots, 0);
    found.push(`All ${plural(slots, "slot")} of ${taking.map((node) => node.id).join(", ")} are taken.`);
  }
  return found;
}

export class QueuePage extends ResourcePage {
  kind = QUEUE;
  below = shutBadge;

  actions({ paused, revision }) {
    if (!this.may("patch")) return [];
    const change = async () => {
      await attempt(
        () => patch(this.path, { paused: !paused }, ifMatch(revision)),
        paused ? "It goes on" : "It is paused",
      );
      await this.resource.reload();
    };
    return [button(paused ? "Resume" : "Pause", change)];
  }

  parts(queue) {
    const found = obstacles(queue, this.watch("/v1/cluster", { on: ["cluster", "runs"] }).data);
    const held = queue.waiting ? "What holds those that wait" : "What would hold a run";
    const free = queue.waiting
      ? "Nothing holds those that wait: they are about to be given to nodes."
      : "Nothing holds its runs: what is due starts at once.";
    const holding = found.length
      ? [
          h("h3", null, held),
          h(
            "ul",
            { class: "reasons" },
            found.map((text) => h("li", { key: text }, text)),
          ),
        ]
      : h("p", { class: "muted" }, free);
    return [
      h(
        "div",
        { class: "grid" },
        card("Now", [
          facts([
            ["Running", gauge(queue.running, queue.max_running)],
            ["Waiting", waitingText(queue)],
          ]),
          h("div", { class: "holding" }, holding),
        ]),
        card(
          "Limits",
          facts([
            ["Runs at one time", queue.max_running ?? "no limit"],
            ["Rate", rateText(queue)],
          ]),
        ),
        about(queue),
      ),
      this.#jobs(),
    ];
  }

  #jobs() {
    return this.jobsOf(
      "queue",
      "No job names this queue.",
      `Say "queue": "${this.name}" in a job, and its limits hold for the job's runs.`,
    );
  }

  absent() {
    return [super.absent(), this.#jobs()];
  }
}
define("rs-queue-page", QueuePage);
