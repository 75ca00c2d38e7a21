/** What one types to go somewhere or to do something: pages, actions of the page, jobs and runs (Ctrl-K). */

import { get, post } from "../core/api.js";
import { absolute, moment, stateWords } from "../core/format.js";
import { bind } from "../core/keys.js";
import { navigate } from "../core/router.js";
import { ROUTES } from "../core/routes.js";
import { session } from "../core/session.js";
import { h } from "../core/vdom.js";
import { MARKS } from "./basics.js";
import { copyAs } from "./copy-as.js";
import { VERBS, fitsPalette, wordsOfPalette } from "./palette-words.js";
import { attempt, confirmDialog, openDialog } from "./dialog.js";
import { ownNamespaces } from "./list-page.js";

const ASK_MS = 180; // without a key, after which the server is asked
const JOBS_FOUND = 6;
const RUNS_FOUND = 3; // of the first job that was found

function pagesAndActions() {
  const buttons = [...document.querySelectorAll("main .page-head .actions :is(button, a)")].filter((one) => !one.disabled);
  const own = buttons.map((one) => ({ kind: "this page", text: one.textContent, run: () => one.click() }));
  const theme = document.querySelector("rs-corner [aria-label^=Theme]");
  return [
    ...own,
    ...ROUTES.filter(({ path, section }) => section && !path.includes(":") && path !== "/ui/compare").map(({ path, title, keys }) => ({
      kind: keys ? `g ${keys}` : "page",
      text: title === "New job" ? title : `Go to ${title.toLowerCase()}`,
      run: () => navigate(path),
    })),
    { kind: "action", text: "Change the theme", run: () => theme?.click() },
    { kind: "action", text: "Copy this page as CLI or curl", run: copyAs },
    { kind: "action", text: "Show the API's reference", run: () => location.assign("/docs") },
  ];
}

async function found(typed, signal) {
  const { verb, text } = wordsOfPalette(typed);
  if (text.length < 2) return [];
  const options = { signal };
  if (/^\w{13}@\d{13}/.test(text)) {
    const run = await get(`/v1/instances/${encodeURIComponent(text)}`, null, options).catch(() => null);
    return run ? [runItem(run)] : [];
  }
  const slash = text.indexOf("/");
  const query = {
    name_contains: text.slice(slash + 1) || undefined,
    namespace: slash > 0 ? text.slice(0, slash) : ownNamespaces()?.[0],
    limit: JOBS_FOUND,
    fields: "id,name,namespace,state",
  };
  const { items } = await get("/v1/jobs", query, options);
  const may = ({ namespace }) => !verb || session.may(`actions_${verb}`, namespace);
  const jobs = items.filter(may).map((job) => jobItem(job, verb));
  if (verb || !items.length) return jobs;
  const runs = await get(`/v1/jobs/${items[0].id}/instances`, { limit: RUNS_FOUND, fields: "id,job_name,state,scheduled_at" }, options);
  return [...jobs, ...runs.items.map(runItem)];
}

function jobItem({ id, name, namespace, state }, verb) {
  const full = `${namespace}/${name ?? id}`;
  if (!verb) return { kind: "job", text: full, mark: MARKS[state], run: () => navigate(`/ui/jobs/${encodeURIComponent(id)}`) };
  const [word, done] = VERBS[verb];
  const act = () => post(`/v1/jobs/${encodeURIComponent(id)}/${verb}`);
  const ask = () =>
    confirmDialog({ title: `${word} ${full}?`, action: word, run: () => attempt(act, `${full} ${done}.`) });
  return { kind: "action", text: `${word} ${full}`, run: ask };
}

function runItem({ id, job_name: name, state, scheduled_at: at }) {
  const text = `Run of ${name ?? id.split("@")[0]}, ${stateWords(state)}${at ? `, ${absolute(moment(at))}` : ""}`;
  return { kind: "run", text, mark: MARKS[state], run: () => navigate(`/ui/runs/${encodeURIComponent(id)}`) };
}

function openPalette() {
  if (document.querySelector("dialog[open]")) return;
  const fixed = pagesAndActions();
  let typed = "";
  let items = fixed;
  let server = [];
  let at = 0;
  let timer = 0;
  let abort = null;
  let said = "";
  const show = () => {
    const chosen = at && items[at];
    items = [...server, ...(typed ? fixed.filter(({ text }) => fitsPalette(text, typed)) : fixed)];
    at = Math.max(0, items.indexOf(chosen)); // also when what the server found comes before it
    dialog.update();
    dialog.element.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  };
  const ask = async () => {
    abort?.abort();
    const mine = (abort = new AbortController());
    try {
      server = await found(typed, mine.signal);
      said = "";
    } catch (error) {
      if (mine.signal.aborted) return;
      server = [];
      said = error.detail || error.message;
    }
    if (!mine.signal.aborted && dialog.element.isConnected) show();
  };
  const take = (item) => {
    dialog.close();
    item?.run();
  };
  const onkeydown = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && items.length) at = (at + by + items.length) % items.length;
    else if (event.key === "Enter") take(items[at]);
    else return;
    event.preventDefault();
    show();
  };
  const oninput = (event) => {
    typed = event.target.value;
    at = 0;
    server = [];
    clearTimeout(timer);
    abort?.abort(); // what it finds is of what was typed before
    timer = setTimeout(ask, ASK_MS);
    show();
  };
  const dialog = openDialog({
    title: "Go to, or do",
    onClose: () => (clearTimeout(timer), abort?.abort()),
    body: () => [
      h("input", {
        type: "text",
        class: "palette-input",
        role: "combobox",
        "aria-label": "A job, a run, a page or an action",
        "aria-expanded": "true",
        "aria-autocomplete": "list",
        "aria-controls": "palette-list",
        "aria-activedescendant": items.length ? `palette-${at}` : null,
        placeholder: "billing/part, run NAME, pause NAME, settings …",
        autocomplete: "off",
        spellcheck: "false",
        autofocus: true,
        onkeydown,
        oninput,
      }),
      h(
        "ul",
        { id: "palette-list", role: "listbox", class: "palette", "aria-label": "What fits" },
        items.map((item, index) =>
          h(
            "li",
            {
              id: `palette-${index}`,
              role: "option",
              "aria-selected": String(index === at),
              onclick: () => take(item),
              onmousemove: () => index !== at && ((at = index), dialog.update()),
            },
            h("span", null, item.mark ? h("span", { "aria-hidden": "true" }, `${item.mark} `) : null, item.text),
            h("span", { class: "muted" }, item.kind),
          ),
        ),
      ),
      h("p", { class: "muted", role: "status" }, said || (items.length ? "" : "Nothing fits.")),
    ],
  });
  dialog.element.classList.add("palette-dialog");
}

bind({ "Ctrl K": ["go to a job, a run or a page, or do something", openPalette] });
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  openPalette();
});
