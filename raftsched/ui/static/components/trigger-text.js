/** Triggers in short, as lists show them. */

import { absolute, moment } from "../core/format.js";

/** Returns the triggers of a job, which has one or several. */
export function triggersOf({ trigger, triggers }) {
  return triggers?.length ? triggers : [trigger ?? {}];
}

/** Returns what the API is given to tell the times of a job's triggers. */
export function whenOf({ trigger, triggers, max_runs }) {
  if (!triggers?.length) return { trigger };
  return max_runs ? { triggers, max_runs } : { triggers };
}

/** Returns the triggers of a job in a few characters, each of several with its id. */
export function jobTriggerText(job) {
  const several = job.triggers?.length;
  return triggersOf(job)
    .map((one) => (several ? `${one.id}: ${triggerText(one)}` : triggerText(one)))
    .join(", ");
}

/** Returns the time zone that the triggers of a job are written in; null where there is none, or several. */
export function triggerZone(job) {
  const zones = new Set(triggersOf(job).map((one) => one.timezone ?? (one.cron || one.rrule ? "UTC" : null)));
  zones.delete(null);
  return zones.size === 1 ? [...zones][0] : null;
}

const ENDS = { failed: "failure of ", ended: "end of " };
// One for each kind of trigger: what it says of itself.
const SHORT = {
  cron: (cron) => cron,
  rrule: (rrule) => rrule.replace(/^RRULE:/i, ""),
  every: (every) => `every ${every?.period ?? every}`,
  at: (at) => `once ${absolute(moment(at), undefined, { seconds: false })}`,
  in: (delay) => `once, after ${delay}`,
  after: ({ job, all_of: all, any_of: any, on }) => {
    const names = job ? [job] : (all ?? any ?? []);
    return `after ${ENDS[on] ?? ""}${names.join(any ? " or " : " and ")}`;
  },
  manual: () => "started by hand",
};

/** Returns a trigger in a few characters: "0 2 * * *", "every 6h", "after load"; of a kind that it does not know, its name. */
export function triggerText(trigger) {
  const kind = Object.keys(SHORT).find((one) => trigger[one] !== undefined);
  return kind ? SHORT[kind](trigger[kind]) : Object.keys(trigger).join(", ");
}
