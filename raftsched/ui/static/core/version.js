/** The version of this page: the node that it came from may have another one by now. */

/** Returns whether the node has no files of this version any more. */
export async function isOutdated() {
  const answer = await fetch(import.meta.url, { method: "HEAD", cache: "no-store" }).catch(() => null);
  return answer?.status === 404;
}
