/** One job: what it is, when it is due, and how its runs went. */

import { asOf, empty, facts, heading, loading, problem, stateBadge, timeOf } from "../components/basics.js";
import { tabs } from "../components/tabs.js";
import { get } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { localTimes, number } from "../core/format.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { jobActions, nameOf } from "./job/actions.js";
import { jobContent, labels } from "./job/content.js";
import { graphFacts, graphOf, jobGraphTab } from "./job/graph.js";
import { kindsOf } from "./job/paths.js";
import { jobRevisions } from "./job/revisions.js";
import { jobRuns } from "./job/runs.js";
import { jobSchedule, zoneOf } from "./job/schedule.js";
import { jobYear } from "./job/year.js";

export class JobPage extends Page {
  #error = null; // of a name that could not be looked up

  connected() {
    this.on(session, "change", () => this.update());
    if (this.params.id.includes("/")) this.#find();
  }

  /** Goes to the address by id of a job that is named as "namespace/name". */
  async #find() {
    const [namespace, ...name] = this.params.id.split("/");
    try {
      const job = await get(
        `/v1/namespaces/${encodeURIComponent(namespace)}/jobs/${encodeURIComponent(name.join("/"))}`,
        null,
        { signal: this.signal },
      );
      await navigate(`/ui/jobs/${encodeURIComponent(job.id)}${location.search}`, { replace: true });
    } catch (error) {
      this.#error = error;
      this.update();
    }
  }

  render() {
    const { id } = this.params;
    if (id.includes("/")) return [heading(id), this.#error ? gone(this.#error) : loading()];
    const resource = this.watch(`/v1/jobs/${encodeURIComponent(id)}`, { on: kindsOf(this.params) });
    const job = resource.data;
    if (resource.error?.status === 404)
      return [heading(job ? nameOf(job) : id, { above: crumbs(job) }), gone(resource.error, job)];
    if (!job) return [heading(id, { above: crumbs() }), resource.error ? problem(resource.error) : loading()];
    document.title = `${nameOf(job)} · raftsched`;
    return [
      this.#head(job, () => resource.reload()),
      asOf(resource),
      this.#problem(job),
      this.#facts(job),
      this.#tabs(job),
    ];
  }

  #head(job, changed) {
    return heading(nameOf(job), {
      above: crumbs(job),
      actions: jobActions(job, changed),
      below: h(
        "div",
        { class: "job-below" },
        job.description ? h("p", null, job.description) : null,
        h("p", { class: "row" }, stateBadge(job.state), labels(job.labels ?? {})),
      ),
    });
  }

  #problem({ error }) {
    return error
      ? h("div", { class: "problem" }, h("strong", null, "Error "), h("span", { class: "pre" }, error))
      : null;
  }

  #facts(job) {
    const { id, next_fire_at, last_instance, last_end_at, last_start_at, last_executor } = job;
    const words = this.watch(`/v1/jobs/${encodeURIComponent(id)}/next?count=10`, { on: kindsOf(job) }).data
      ?.description;
    const obstacles = this.watch(`/v1/jobs/${encodeURIComponent(id)}/explain`, { on: kindsOf(job) }).data?.obstacles;
    const zone = zoneOf(job);
    const last = last_start_at || last_end_at;
    return h(
      "div",
      { class: "card job-facts" },
      facts([
        ["Trigger", words],
        [
          "Next time",
          next_fire_at
            ? [
                timeOf(next_fire_at),
                h("p", { class: "muted" }, timeOf(next_fire_at, { relative: false, zone }), ` ${zone}`),
              ]
            : null,
        ],
        ["In its way", obstacles?.length ? obstacles.map((one) => h("p", { key: one.reason }, localTimes(one.text))) : null],
        ["Goes on by itself", job.resumes_at ? timeOf(job.resumes_at) : null],
        [
          "Last run",
          last && last_instance
            ? h(
                "a",
                { href: `/ui/runs/${encodeURIComponent(last_instance)}` },
                timeOf(last),
                last_executor ? ` on ${last_executor}` : "",
                job.last_state && last_end_at >= last_start_at ? [" ", stateBadge(job.last_state)] : null,
              )
            : null,
        ],
        ["Runs by schedule", `${number(job.runs)}${job.active ? ` · ${number(job.active)} active` : ""}`],
        ...graphFacts(job, graphOf(this, job).data),
        [
          "Failures in a row",
          job.failures_in_a_row ? h("strong", { class: "bad" }, number(job.failures_in_a_row)) : null,
        ],
        ["Owner", job.owner ? h("a", { href: `/ui/jobs?owner=${encodeURIComponent(job.owner)}` }, job.owner) : null],
        ["Queue", h("a", { href: `/ui/queues/${encodeURIComponent(job.queue)}` }, job.queue)],
        ["Created", timeOf(job.created_at)],
        ["Revision", h("a", { href: "?tab=revisions" }, number(job.revision))],
        ["Id", h("code", null, id)],
      ]),
    );
  }

  #tabs(job) {
    return tabs(
      [
        ["runs", "Runs", () => jobRuns(job, this)],
        ["year", "Year", () => jobYear(job)],
        ["schedule", "Schedule", () => jobSchedule(job)],
        ["graph", "Graph", () => jobGraphTab(job)],
        ["content", "Content", () => jobContent(job)],
        ["revisions", "Revisions", () => jobRevisions(job, this)],
      ],
      this.query.get("tab") ?? "runs",
      (tab) => this.setQuery({ tab: tab === "runs" ? null : tab }),
    );
  }
}
define("rs-job-page", JobPage);

function crumbs(job) {
  return [
    h("a", { href: "/ui/jobs" }, "Jobs"),
    job ? [" / ", h("a", { href: `/ui/jobs?namespace=${encodeURIComponent(job.namespace)}` }, job.namespace)] : null,
  ];
}

function gone(error, job) {
  if (error.status !== 404) return problem(error);
  return empty(
    job ? "This job was deleted." : "There is no such job.",
    job
      ? "Its name is free again: a job that was created anew has another id."
      : `${error.detail} It may have been deleted, or belong to a namespace that your token does not see.`,
    h("a", { class: "button", href: "/ui/jobs" }, "All jobs"),
  );
}
