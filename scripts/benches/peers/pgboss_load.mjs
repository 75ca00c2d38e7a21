// pg-boss under load. Producer and workers are one process with a pool of connections: PostgreSQL has the other core.
import { begin, createAll, far, given, require, sayBulk, sayBurst, sayCreate, sayRun, until } from './loops.mjs'

const PgBoss = require('pg-boss')
const CONNECTIONS = 32
const WORKERS = 4 // each fetches so many jobs at a time, at most every half second: the shortest that it takes
const FETCH = 2_500

const boss = new PgBoss({
  host: '127.0.0.1', port: Number(process.env.PEER_PORT), user: 'bench', database: 'bench', max: CONNECTIONS, schedule: false
})
boss.on('error', error => { console.error(error); process.exit(1) })
await boss.start()

const later = ms => new Date(Date.now() + ms)
const batch = (name, size, startAfter) => Array.from({ length: size }, () => ({ name, data: {}, startAfter: startAfter() }))

// Jobs of a queue that are done, and when the last was, by the records. Its own completions are not waited for.
async function completed (name) {
  const { rows } = await boss.getDb().executeSql(
    "SELECT count(*)::int AS jobs, max(completed_on) AS last FROM pgboss.job WHERE name = $1 AND state = 'completed'", [name])
  return rows[0]
}

// A queue and its workers; `starts` is filled with what ran, in ms of the wall clock.
async function working (name, use) {
  await boss.createQueue(name)
  const starts = []
  const handle = async jobs => { const now = Date.now(); for (const _ of jobs) starts.push(now) }
  for (let i = 0; i < WORKERS; i++) await boss.work(name, { batchSize: FETCH, pollingIntervalSeconds: 0.5 }, handle)
  await use(starts)
  await boss.offWork(name)
}

async function run (name, count) {
  let took
  await working(name, async starts => {
    begin()
    const start = Date.now()
    await createAll(count, size => boss.insert(batch(name, size, () => undefined)))
    await until(() => starts.length >= count, 180, `${count} starts`)
    await until(async () => (await completed(name)).jobs >= count, 60, `${count} runs`)
    took = ((await completed(name)).last.getTime() - start) / 1000
  })
  return took
}

async function burst (count) {
  await working('burst', async starts => {
    const due = Date.now() + given.lead_s * 1000
    await createAll(count, size => boss.insert(batch('burst', size, () => new Date(due))))
    if (Date.now() > due) throw new Error('creating took longer than the lead; use --lead')
    await until(() => starts.length >= count, given.lead_s + 180, `${count} runs`)
    sayBurst(due, starts)
  })
}

await boss.createQueue('create')
if (given.parts.includes('create')) await sayCreate(() => boss.send('create', {}, { startAfter: later(far()) }))
if (given.parts.includes('bulk')) await sayBulk(() => boss.insert(batch('create', given.batch, () => later(far()))))
if (given.parts.includes('run') || given.parts.includes('burst')) await run('warm', given.warm)
if (given.parts.includes('run')) sayRun(given.count, await run('run', given.count))
if (given.parts.includes('burst')) await burst(given.count)
process.exit(0)
