/** Addresses of a job and of its runs. */

/** Returns the path of a job in the API. */
export function jobPath({ id }) {
  return `/v1/jobs/${encodeURIComponent(id)}`;
}

/** Returns the kinds of changes after which a job is something else: its own, and those of its runs. */
export function kindsOf({ id }) {
  return [`job:${id}`, `runs-of:${id}`];
}

/** Returns the path of a run in the API. */
export function runPath({ id }) {
  return `/v1/instances/${encodeURIComponent(id)}`;
}

/** Returns the address of the page of a run. */
export function runLink({ id }) {
  return `/ui/runs/${encodeURIComponent(id)}`;
}
