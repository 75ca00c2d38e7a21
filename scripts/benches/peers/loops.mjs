// What the JavaScript load programs share.
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'

export const given = JSON.parse(process.argv[2])
export const require = createRequire(path.join(process.env.PEER_NODE_MODULES, 'any.js'))

function say (bench, figures) {
  console.log(JSON.stringify({ bench, ...figures }))
}

function percentile (ordered, share) {
  return ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * share))]
}

// Milliseconds until a due time that the benchmark does not live to see, as spread as those of real users.
export function far () {
  return 3_600_000 + Math.floor(Math.random() * 9 * 3_600_000)
}

// What a figure is about begins here.
export function begin () {
  say('begin')
}

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

// So many loops at once, each sending its next request when the last was answered; after a second to get warm.
// Latencies in ms, seconds, and the share of the machine that this process took.
async function closedLoop (inFlight, seconds, send) {
  const load = async long => {
    const latencies = []
    const start = performance.now()
    const before = process.cpuUsage()
    const work = async () => {
      for (let sent; (sent = performance.now()) - start < long * 1000;) {
        await send()
        latencies.push(performance.now() - sent)
      }
    }
    await Promise.all(Array.from({ length: inFlight }, work))
    const took = (performance.now() - start) / 1000
    const { user, system } = process.cpuUsage(before)
    return [latencies.sort((a, b) => a - b), took, (user + system) / 1e6 / took / os.cpus().length]
  }
  await load(Math.min(1, seconds))
  begin()
  return load(seconds)
}

export async function sayCreate (send) {
  for (const inFlight of given.in_flight) {
    const [latencies, took, share] = await closedLoop(inFlight, given.seconds, send)
    say('create', {
      in_flight: inFlight, per_second: latencies.length / took,
      p50_ms: percentile(latencies, 0.5), p99_ms: percentile(latencies, 0.99), cpu_load: share
    })
  }
}

export async function sayBulk (send) {
  const [latencies, took, share] = await closedLoop(given.batch_in_flight, given.seconds, send)
  say('create-batch', {
    batch: given.batch, in_flight: given.batch_in_flight, jobs_per_second: latencies.length * given.batch / took,
    p50_ms: percentile(latencies, 0.5), p99_ms: percentile(latencies, 0.99), cpu_load: share
  })
}

// Batches of 500, four at a time.
export async function createAll (count, send) {
  let left = count
  const work = async () => {
    while (left > 0) {
      const size = Math.min(500, left)
      left -= size
      await send(size)
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
}

export function sayRun (count, seconds) {
  say('run', { runs: count, per_second: count / seconds, seconds })
}

// `due` and `starts` in ms of the wall clock.
export function sayBurst (due, starts) {
  const late = starts.map(at => at - due).sort((a, b) => a - b)
  say('burst', {
    due_at_once: late.length, lateness_p50_ms: percentile(late, 0.5), lateness_p99_ms: percentile(late, 0.99),
    last_start_ms: late.at(-1)
  })
}

// run -> when it was due, and when it started; one that never did counts with all that it was waited for.
export function sayPeriodic (count, due, starts) {
  const now = Date.now()
  const late = [...due].map(([run, at]) => (starts.get(run) ?? now) - at).sort((a, b) => a - b)
  say('periodic', {
    layout: 'spread', jobs: count, seconds: given.periodic_s, due: due.size,
    not_run: [...due.keys()].filter(run => !starts.has(run)).length,
    p50_ms: percentile(late, 0.5), p99_ms: percentile(late, 0.99), max_ms: late.at(-1)
  })
}

// `enough` is called with how many there are now; resolves when that is true.
export async function until (enough, limitSeconds, what) {
  const deadline = Date.now() + limitSeconds * 1000
  while (!await enough()) {
    if (Date.now() > deadline) throw new Error(`waited ${limitSeconds} s in vain for ${what}`)
    await pause(20)
  }
}
