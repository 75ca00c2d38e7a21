/** The words of which a request or an answer has one. Made by scripts/make-client; not edited by hand. */

export const EVENT_NAME = ["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"];
export const CLUSTER_EVENT_NAME = ["leader_changed", "node_lost", "node_back", "disk_short"];
export const JOB_EVENT_NAME = ["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started", "late", "running_long", "not_run_since"];
export const END_STATE_NAME = ["SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"];
export const INSTANCE_STATE_NAME = ["WAITING", "LAUNCHED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"];
