/** Addresses of the page to lines of the command line and of curl. */

import { match } from "../core/router.js";
import { quoted } from "../pages/editor/model.js";

const RUN_OPTIONS = { job: "--job", namespace: "-N", state: "--state", node: "--node", worker: "--worker", from: "--from", to: "--to", late: "--late" };
const JOB_OPTIONS = {
  namespace: "-N", state: "--state", owner: "--owner", label: "--label", queue: "--queue", calendar: "--calendar",
  failing: "--failing", late: "--late",
};
const AUDIT_OPTIONS = { actor: "--actor", resource: "--resource", operation: "--operation", namespace: "-N", kind: "--kind", from: "--from", to: "--to" };
const DLQ_OPTIONS = { namespace: "-N", name_prefix: "--name-prefix" };
const CREATES = ["jobs create --help"];

/**
 * Path of a page -> (parameters of the path as words of a shell, those of the query, those of the path as in addresses) ->
 * [words of the command line, paths of the API].
 */
const VIEWS = {
  "/ui": () => [["cluster status", "runs list --state RUNNING"], ["/v1/stats/now"]],
  "/ui/jobs": (_, query) => {
    const { q = "", health, ...rest } = query;
    const slash = q.indexOf("/");
    const asked = { ...rest, [health]: "true", ...(slash > 0 && { namespace: q.slice(0, slash) }) };
    const part = q.slice(slash + 1);
    return [
      [`jobs list${options(asked, JOB_OPTIONS)}${part && ` --name-contains ${quoted(part)}`}`],
      [`/v1/jobs${asText({ ...known(asked, JOB_OPTIONS), name_contains: part })}`],
    ];
  },
  "/ui/jobs/new": () => [CREATES, []],
  "/ui/jobs/:id": ({ id }, { tab, state }, sent) => {
    const path = `/v1/jobs/${sent.id}`;
    if (tab === "graph") return [[`jobs graph ${id}`], [`/v1/jobs:graph?job=${sent.id}`]];
    const one = tab === "schedule" ? "next" : tab;
    if (one === "next" || one === "revisions") return [[`jobs ${one} ${id}`], [`${path}/${one}`]];
    return [
      [`jobs get ${id}`, `jobs explain ${id}`, `runs list --job ${id}${options({ state }, RUN_OPTIONS)}`],
      [path, `${path}/explain`, `${path}/instances${asText({ state })}`],
    ];
  },
  "/ui/jobs/:id/edit": ({ id }, _, sent) => [[`jobs edit ${id}`], [`/v1/jobs/${sent.id}`]],
  "/ui/runs": (_, query) => [
    [`runs list${options(query, RUN_OPTIONS)}`],
    [`/v1/instances${asText(known(query, RUN_OPTIONS))}`],
  ],
  "/ui/runs/:id": ({ id }, { attempt }, sent) => {
    const number = /^\d+$/.test(attempt) ? attempt : "";
    return [
      [`runs get ${id}`, `runs explain ${id}`, `runs output ${id}${number && ` --attempt ${number}`}`],
      ["", "/explain", `/output${number && `?attempt=${number}`}`].map((end) => `/v1/instances/${sent.id}${end}`),
    ];
  },
  "/ui/compare": (_, { a = "A", b = "B" }) => [
    [a, b].flatMap((id) => [`runs get ${quoted(id)}`, `runs output ${quoted(id)}`]),
    [a, b].map((id) => `/v1/instances/${encodeURIComponent(id)}`),
  ],
  "/ui/workflows": (_, query) => [
    [`workflows list${options(query, RUN_OPTIONS)}`],
    [`/v1/workflows${asText(known(query, RUN_OPTIONS))}`],
  ],
  "/ui/workflows/:id": ({ id }, _, sent) => [[`workflows show ${id}`], [`/v1/workflows/${sent.id}`]],
  "/ui/dead-letters": (_, query) => [
    [`dlq list${options(query, DLQ_OPTIONS)}`],
    [`/v1/dead-letters${asText(known(query, DLQ_OPTIONS))}`],
  ],
  "/ui/webhooks/:name": ({ name }, _, sent) => [
    [`webhooks get ${name}`, `webhooks deliveries ${name}`],
    [`/v1/webhooks/${sent.name}`],
  ],
  "/ui/audit": (_, { tab, ...query }) => {
    if (tab === "chain") return [["audit verify"], ["/v1/audit/chain"]];
    if (tab === "refusals") return [["audit refusals"], ["/v1/audit/refusals"]];
    return [[`audit list${options(query, AUDIT_OPTIONS)}`], [`/v1/audit${asText(known(query, AUDIT_OPTIONS))}`]];
  },
  "/ui/cluster": () => [["cluster status", "doctor"], ["/v1/cluster", "/v1/nodes"]],
  "/ui/cluster/settings": () => [["cluster settings list"], ["/v1/cluster/settings"]],
  "/ui/preview": () => [["preview --help"], []],
  "/ui/crontab": () => [["jobs import --dry-run -"], []],
  "/ui/sign-in": () => [["login"], ["/v1/whoami"]],
};
for (const kind of ["queues", "calendars", "namespaces", "webhooks", "operations", "tokens"]) {
  VIEWS[`/ui/${kind}`] = () => [[`${kind} list`], [`/v1/${kind}`]];
  VIEWS[`/ui/${kind}/:name`] ??= ({ name }, _, sent) => [[`${kind} get ${name}`], [`/v1/${kind}/${sent.name}`]];
}

const VIEW_ROUTES = Object.entries(VIEWS).map(([path, make]) => ({ path, make }));

/**
 * Returns `{cli, curl}`: the lines that show what a page shows.
 *
 * @param {string} path of the address
 * @param {string} search what follows it: "?state=FAILED"
 * @param {string} server its address
 * @param {boolean} token requests need one, which stays a variable
 */
export function linesOf(path, search, server, token) {
  const found = match(path, VIEW_ROUTES);
  if (!found) return { cli: ["raftsched --help"], curl: [] };
  const params = (kind) => Object.fromEntries(Object.entries(found.params).map(([name, value]) => [name, kind(value)]));
  const query = Object.fromEntries(new URLSearchParams(search));
  const [cli, curl] = found.route.make(params(quoted), query, params(encodeURIComponent));
  const before = server === "http://127.0.0.1:7401" ? "raftsched" : `raftsched --server ${quoted(server)}`;
  const header = token ? ' -H "Authorization: Bearer $RAFTSCHED_TOKEN"' : "";
  return { cli: cli.map((line) => `${before} ${line}`), curl: curl.map((one) => `curl${header} ${quoted(server + one)}`) };
}

function known(query, names) {
  return Object.fromEntries(Object.entries(query).filter(([name, value]) => value && Object.hasOwn(names, name)));
}

function options(query, names) {
  return Object.entries(known(query, names))
    .map(([name, value]) => (value === "true" ? ` ${names[name]}` : ` ${names[name]} ${quoted(value)}`))
    .join("");
}

function asText(query) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return text && `?${text}`;
}
