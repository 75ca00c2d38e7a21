/** The page on which a job is made or changed: a form and its JSON side by side, checked by the API as one types. */

import { heading, loading, problem } from "../components/basics.js";
import { confirmDialog, toast } from "../components/dialog.js";
import { randomKey, request } from "../core/api.js";
import { Page, define } from "../core/element.js";
import { navigate } from "../core/router.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { Batch, manyJobs } from "./editor/batch.js";
import { Checker } from "./editor/checker.js";
import { changesOf, conflictNotice } from "./editor/conflict.js";
import { draftNotice, keepDraft, readDraft } from "./editor/drafts.js";
import { makeForm } from "./editor/form.js";
import { isObject, jobsOf, patchOf, patched, same, withValue } from "./editor/model.js";
import { sections } from "./editor/sections.js";
import { jsonCard, sentCard } from "./editor/side.js";
import { loadJob, newJob } from "./editor/source.js";
import { zoneList } from "./editor/times.js";

const NAME_LISTS = {
  // what is offered while one types: list -> [path, operation]
  namespaces: ["/v1/namespaces?limit=1000", "namespaces_list_all"],
  queues: ["/v1/queues?limit=1000", "queues_list_all"],
  calendars: ["/v1/calendars?limit=1000", "calendars_list_all"],
  webhooks: ["/v1/webhooks?limit=1000", "webhooks_list_all"],
};

export class EditorPage extends Page {
  #job = null; // the job that is edited, as the API shows it
  #base = {}; // its content as it was given
  #value = null; // what is edited
  #many = null; // several jobs, where the JSON is a list
  #text = ""; // the JSON
  #textError = null;
  #checker = new Checker(() => this.update());
  #problem = null; // of loading, or of the last attempt to save
  #conflict = null; // {job, base, lines}: what somebody else made of it
  #busy = false;
  #touched = false;
  #draftAt = 0;
  #key = null; // of a create that was sent, and what it said
  #opened = new Map();
  #batch = new Batch();

  get #id() {
    return this.params.id;
  }

  get #address() {
    return this.#id ? `/ui/jobs/${this.#id}/edit` : `/ui/jobs/new?${this.query}`;
  }

  get #dirty() {
    if (this.#many || this.#textError) return !this.#batch.items;
    return this.#touched && !same(this.#value, this.#base);
  }

  async connected() {
    this.on(window, "beforeunload", (event) => this.#dirty && event.preventDefault());
    this.on(session, "change", () => this.update());
    try {
      if (this.#id) await this.#load();
      else this.#base = await newJob(this.query, this.signal);
    } catch (error) {
      this.#problem = error;
      this.update();
      return;
    }
    const draft = readDraft(this.#address);
    this.#show(this.#base);
    if (draft && draft.text !== this.#text) {
      this.#draftAt = draft.at;
      if (draft.base) [this.#base, this.#job] = [draft.base, draft.job];
      this.#typed(draft.text);
    } else this.#check(0);
  }

  disconnected() {
    this.#checker.stop();
  }

  async #load() {
    const { job, content } = await loadJob(this.#id, this.signal);
    [this.#job, this.#base] = [job, content];
  }

  #show(value) {
    this.#value = value;
    this.#many = null;
    this.#text = JSON.stringify(value, null, 2);
    this.#textError = null;
    this.update();
  }

  #set(path, given) {
    this.#touched = true;
    this.#show(withValue(this.#value, path, given) ?? {});
    this.#changed();
  }

  #typed(text) {
    this.#touched = true;
    this.#text = text;
    this.#textError = null;
    this.#batch.items = null;
    try {
      const { jobs, many } = jobsOf(text);
      if (many && this.#id) throw new SyntaxError("This is one job: it cannot become a list.");
      if (!many && !isObject(jobs[0])) throw new SyntaxError("A job is an object: { ... }");
      this.#many = many ? jobs : null;
      if (!many) this.#value = jobs[0];
    } catch (error) {
      this.#textError = error;
    }
    this.#changed();
    this.update();
  }

  #changed() {
    this.#problem = null;
    const kept = this.#dirty
      ? {
          text: this.#text,
          at: Date.now(),
          base: this.#id && this.#base,
          job: this.#job,
        }
      : null;
    keepDraft(this.#address, kept);
    this.#check();
  }

  #request() {
    if (!this.#id) return { method: "POST", path: "/v1/jobs", body: this.#value, headers: {} };
    const headers = { "If-Match": `"${this.#job.id}.${this.#job.revision}"` };
    const path = `/v1/jobs/${encodeURIComponent(this.#id)}`;
    return { method: "PATCH", path, body: patchOf(this.#base, this.#value), headers };
  }

  #check(wait) {
    this.#checker.soon(() => {
      if (this.#many || this.#textError || !this.#mayWrite()) return null;
      const { path, body } = this.#request();
      // A new job of which nothing is said yet has errors that nobody made.
      const begun = this.#touched || this.query.has("from");
      const asked = this.#id ? `${path}/check` : begun ? `${path}:check` : null;
      return { path: asked, body, value: this.#value };
    }, wait);
  }

  #mayWrite() {
    if (this.#many) return session.may("batch_create_batch");
    if (this.#id) return session.may("jobs_patch", this.#job?.namespace);
    return session.may("jobs_create", this.#value?.namespace ?? "default");
  }

  render() {
    const title = this.#id ? "Edit job" : "New job";
    if (!this.#value) return [heading(title), this.#problem ? problem(this.#problem) : loading()];
    const above = this.#id ? h("a", { href: `/ui/jobs/${this.#id}` }, this.#job.name ?? this.#id) : null;
    const others = this.#id
      ? null
      : h("div", { class: "row" }, h("a", { class: "button", href: "/ui/crontab" }, "From a crontab"));
    return [
      heading(title, { above, actions: others }),
      this.#mayWrite() ? null : h("p", { class: "warning" }, "Your token may not write jobs in this namespace."),
      this.#draftAt ? draftNotice(this.#draftAt, () => this.#dropDraft()) : null,
      this.#conflict
        ? conflictNotice(
            this.#conflict,
            () => this.#dropMine(),
            () => ((this.#conflict = null), this.update()),
          )
        : null,
      h(
        "div",
        { class: "editor" },
        h(
          "form",
          { class: "editor-form", onsubmit: (event) => this.#submit(event), "aria-label": title },
          this.#form(),
        ),
        h("div", { class: "editor-side" }, this.#json(), this.#many ? null : sentCard(this.#request(), this.#id)),
      ),
      zoneList(),
      Object.entries(NAME_LISTS).map(([name, [path, operation]]) => {
        const items = session.may(operation) ? (this.watch(path).data?.items ?? []) : [];
        return h(
          "datalist",
          { id: name, key: name },
          items.map((one) => h("option", { value: one.name, key: one.name })),
        );
      }),
    ];
  }

  #json() {
    const errors = this.#touched && !this.#textError && !this.#many ? this.#checker.errors : [];
    return jsonCard({
      text: this.#text,
      typed: (text) => this.#typed(text),
      error: this.#textError,
      errors,
      several: !this.#id,
    });
  }

  #form() {
    if (this.#many) return manyJobs(this.#many, this.#batch, this.#mayWrite());
    const form = makeForm({
      value: this.#value,
      set: (path, value) => this.#set(path, value),
      errors: this.#touched || this.#problem ? this.#checker.errors : [],
      effective: this.#checker.checked?.job,
      opened: this.#opened,
      update: () => this.update(),
    });
    const parts = sections(form, { isNew: !this.#id, live: this.#checker.live(this.#value) });
    const rest = form.rest();
    return [
      rest.length
        ? h(
            "div",
            { class: "problem", role: "alert" },
            rest.map((one) => h("p", { key: one.pointer + one.detail }, h("code", null, one.pointer), " ", one.detail)),
          )
        : null,
      this.#textError
        ? h("p", { class: "warning" }, "The JSON cannot be read; the form shows the job as it was before.")
        : null,
      parts,
      this.#problem ? problem(this.#problem) : null,
      h(
        "div",
        { class: "editor-save" },
        h("button", { type: "submit", class: "primary", disabled: this.#busy || !this.#maySave() }, this.#saveWords()),
        h("a", { class: "button", href: this.#id ? `/ui/jobs/${this.#id}` : "/ui/jobs" }, "Cancel"),
        h("span", { class: "muted", role: "status" }, this.#state()),
      ),
    ];
  }

  #saveWords() {
    if (this.#busy) return "…";
    if (this.#key?.uncertain) return "Send it again";
    return this.#id ? "Save" : "Create job";
  }

  #maySave() {
    return this.#mayWrite() && !this.#textError && (!this.#id || this.#dirty) && !this.#checker.errors.length;
  }

  #state() {
    if (this.#textError) return "";
    if (this.#checker.errors.length) return this.#touched ? `${this.#checker.errors.length} to correct` : "";
    if (!this.#id) return this.#checker.checked ? "✓ can be created" : "";
    return this.#dirty ? "✓ can be saved" : "Nothing is changed.";
  }

  async #submit(event) {
    event.preventDefault();
    if (this.#busy) return;
    if (this.#many) {
      await this.#batch.send(this.#many, () => this.update());
      if (this.#batch.items) keepDraft(this.#address, null);
      return;
    }
    if (!this.#maySave()) return;
    this.#busy = true;
    this.#problem = null;
    this.update();
    const { method, path, body, headers } = this.#request();
    const text = JSON.stringify(body);
    if (!this.#id && this.#key?.text !== text) this.#key = { text, name: randomKey(), uncertain: false };
    try {
      const { data, status } = await request(method, path, { body, headers, idempotency: this.#key?.name });
      this.#saved(
        data,
        status === 201 ? "The job is created." : this.#id ? "The job is changed." : "This job was there before.",
      );
    } catch (error) {
      // An answer that was lost: under the same key it is the same request, and is not done twice.
      if (this.#key) this.#key.uncertain = error.status === 504 || error.name === "Unreachable";
      if (error.status === 412) await this.#compare(error);
      else this.#refused(error);
    }
    this.#busy = false;
    this.update();
  }

  #refused(error) {
    this.#problem = error;
    if (error.status === 422 && error.errors.length) this.#checker.errors = error.errors;
  }

  #saved(job, words) {
    this.#touched = false;
    keepDraft(this.#address, null);
    toast(words);
    navigate(`/ui/jobs/${job.id}`);
  }

  async #compare(error) {
    const [mine, before] = [this.#value, this.#base];
    const patch = patchOf(before, mine);
    try {
      await this.#load();
    } catch (failure) {
      this.#refused(failure);
      return;
    }
    if (same(patched(this.#base, patch), this.#base)) {
      this.#saved(this.#job, "The job is changed."); // by the request whose answer was lost, or just so by another
      return;
    }
    this.#conflict = { changes: changesOf(before, this.#base, patch), revision: this.#job.revision };
    this.#problem = this.#conflict.changes.length ? null : error;
    this.#show(patched(this.#base, patch));
    this.#changed();
  }

  #dropMine() {
    this.#conflict = null;
    this.#touched = false;
    this.#show(this.#base);
    this.#changed();
  }

  async #dropDraft() {
    this.#draftAt = 0;
    this.#touched = false;
    keepDraft(this.#address, null);
    if (this.#id) await this.#load();
    this.#show(this.#base);
    this.#check(0);
  }

  async mayLeave() {
    if (!this.#dirty || session.refused) return true; // who has to sign in again finds the draft here
    const leave = await confirmDialog({
      title: "Leave without saving?",
      body: "What you changed is not sent. It is lost when you leave.",
      action: "Leave",
      danger: true,
    });
    if (leave) keepDraft(this.#address, null);
    return leave;
  }
}
define("rs-editor-page", EditorPage);
