/** What is wrong with the cluster, in words, as far as /v1/cluster tells. */

import { bytes, duration, number } from "../../core/format.js";

const LAG = 1_000; // entries: a follower that is further behind has trouble to keep up
const CLOCK_MS = 250;
const FREE = 0.1; // of a disk: less is little
const FREE_LEAST = 1_000_000_000; // bytes

/** Returns `[{bad: boolean, text}]`, the worst first. */
export function troubles(cluster) {
  const found = [];
  const say = (bad, text) => found.push({ bad, text });
  const { nodes, leader } = cluster;
  if (!leader)
    say(true, cluster.waits_for ?? "No node leads now.");
  if (cluster.paused) say(false, "The cluster is paused: nothing is started on any node until it is resumed.");
  const voters = nodes.filter((node) => node.voter);
  const down = nodes.filter((node) => !node.alive);
  if (down.length && leader) {
    const left = Math.ceil(voters.length / 2) - 1 - down.filter((node) => node.voter).length;
    const more = left > 0 ? `${number(left)} more may be lost.` : "No other may be lost.";
    say(left <= 0, `${names(down)} ${down.length === 1 ? "does" : "do"} not answer. ${more}`);
  }
  for (const node of nodes) {
    if (node.trouble) say(true, `${node.id} starts no runs: ${node.trouble}.`);
    else if (node.alive && leader && node.voter && !node.session_open)
      say(false, `${node.id} has no session: no runs are given to it.`);
    if (node.alive && node.lag > LAG) say(false, `${node.id} is ${number(node.lag)} entries of the log behind.`);
    if (Math.abs(node.clock_offset_ms ?? 0) > CLOCK_MS)
      say(false, `The clock of ${node.id} is ${duration(Math.abs(node.clock_offset_ms))} off the leader's.`);
    if (node.disk && (node.disk.free < FREE_LEAST || node.disk.free < FREE * node.disk.total)) {
      say(
        node.disk.free < FREE_LEAST,
        `The disk of ${node.id} has ${bytes(node.disk.free)} left, of ${bytes(node.disk.total)}.`,
      );
    }
    if (node.raft_announced) say(false, `${node.id} is at ${node.raft_announced}, and the members have ${node.raft}.`);
    if (!node.voter && cluster.formed) say(false, `${node.id} is catching up, and votes when it is done.`);
  }
  const drained = nodes.filter((node) => node.drained);
  if (drained.length)
    say(
      false,
      `${names(drained)} ${drained.length === 1 ? "is" : "are"} drained and ${drained.length === 1 ? "takes" : "take"} nothing new.`,
    );
  for (const node of cluster.waiting) say(false, `${node.id} asks to be let in (${node.why.replaceAll("-", " ")}).`);
  return found.sort((a, b) => b.bad - a.bad);
}

function names(nodes) {
  return nodes.map((node) => node.id).join(", ");
}
