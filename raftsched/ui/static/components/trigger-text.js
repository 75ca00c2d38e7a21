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

/** Returns a trigger in a few characters: "0 2 * * *", "every 6h", "once 2030-01-01 02:00". */
export function triggerText(trigger) {
  const { cron, rrule, every, at } = trigger;
  if (cron !== undefined) return cron;
  if (rrule !== undefined) return rrule.replace(/^RRULE:/i, "");
  if (every !== undefined) return `every ${typeof every === "object" ? (every.period ?? "") : every}`;
  if (at !== undefined) return `once ${absolute(moment(at), undefined, { seconds: false })}`;
  if (trigger.in !== undefined) return `once, after ${trigger.in}`;
  return "by hand";
}
