/** Triggers in short, as lists show them. */

import { absolute, moment } from "../core/format.js";

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
