/** Where an edited job comes from: the cluster, a copy of another job, or nothing. */

import { homeNamespace } from "../../components/list-page.js";
import { get } from "../../core/api.js";
import { viewerZone } from "../../core/format.js";

const SOURCE_TRIES = 3;

/** Returns a job and its content as it was given, without defaults: `{job, content}`. */
export async function loadJob(id, signal) {
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  for (let tries = 1; ; tries++) {
    const [job, revisions] = await Promise.all([get(path, {}, { signal }), get(`${path}/revisions`, {}, { signal })]);
    const [{ revision, content }] = revisions.items;
    // The two may be of different moments.
    if (revision === job.revision || tries === SOURCE_TRIES)
      return {
        job,
        content: { ...(job.name ? { name: job.name } : {}), ...content },
      };
  }
}

/** Returns a new job by the query of the address: `from` is a job to be copied, `trigger` JSON, `namespace` a name. */
export async function newJob(query, signal) {
  const from = query.get("from");
  if (from) {
    const { job, content } = await loadJob(from, signal);
    const { name, ...rest } = content;
    return { ...(name ? { name: `${name}-copy` } : {}), namespace: job.namespace, ...rest };
  }
  const namespace = query.get("namespace") ?? homeNamespace();
  const trigger = parsedOrNull(query.get("trigger")) ?? { cron: "0 2 * * *", timezone: viewerZone() };
  return { ...(namespace ? { namespace } : {}), trigger, handler: { shell: "" } };
}

function parsedOrNull(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a link that was cut
  }
}
