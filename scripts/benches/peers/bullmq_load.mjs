// BullMQ under load. Producer and worker are one process: Redis has the other core.
import { begin, createAll, far, given, pause, require, sayBulk, sayBurst, sayCreate, sayPeriodic, sayRun, until } from './loops.mjs'

const { Queue, Worker } = require('bullmq')
const connection = { host: '127.0.0.1', port: Number(process.env.PEER_PORT) }
const CONCURRENCY = 200

const batch = (size, delay) => Array.from({ length: size }, () => ({ name: 'noop', data: {}, opts: { delay: delay() } }))

// A queue and its worker; `starts` and `ends` are filled with what ran: [job id, ms of the wall clock].
async function working (name, use) {
  const queue = new Queue(name, { connection })
  const starts = []
  const ends = []
  const worker = new Worker(name, async job => { starts.push([job.id, Date.now()]) }, { connection, concurrency: CONCURRENCY })
  worker.on('completed', () => ends.push(Date.now()))
  worker.on('error', error => { throw error })
  await worker.waitUntilReady()
  try {
    await use(queue, starts, ends)
  } finally {
    await worker.close(true)
    await queue.close()
  }
}

async function run (name, count) {
  let took
  await working(name, async (queue, starts, ends) => {
    begin()
    const start = Date.now()
    await createAll(count, size => queue.addBulk(batch(size, () => 0)))
    await until(() => ends.length >= count, 180, `${count} runs`)
    took = (ends.at(-1) - start) / 1000
  })
  return took
}

async function burst (count) {
  await working('burst', async (queue, starts, ends) => {
    const due = Date.now() + given.lead_s * 1000
    await createAll(count, size => queue.addBulk(batch(size, () => due - Date.now())))
    if (Date.now() > due) throw new Error('creating took longer than the lead; use --lead')
    await until(() => ends.length >= count, given.lead_s + 180, `${count} runs`)
    sayBurst(due, starts.map(([, at]) => at))
  })
}

// A scheduler's jobs have the time they are due in their id.
async function periodic (count) {
  await working('periodic', async (queue, starts) => {
    const every = given.every_s * 1000
    const begin = Date.now() + given.periodic_lead_s * 1000
    const end = begin + given.periodic_s * 1000
    const due = new Map()
    let made = 0
    const work = async () => {
      while (made < count) {
        const id = `entry-${made++}`
        const first = begin + Math.floor(Math.random() * every)
        for (let at = first; at < end; at += every) due.set(`repeat:${id}:${at}`, at)
        await queue.upsertJobScheduler(id, { every, startDate: first, endDate: end - 1 }, { name: 'noop' })
      }
    }
    await Promise.all(Array.from({ length: 32 }, work))
    if (Date.now() > begin) throw new Error('creating took longer than the lead')
    await pause(end - Date.now() + every)
    sayPeriodic(count, due, new Map(starts))
  })
}

const queue = new Queue('create', { connection })
if (given.parts.includes('create')) await sayCreate(() => queue.add('noop', {}, { delay: far() }))
if (given.parts.includes('bulk')) await sayBulk(() => queue.addBulk(batch(given.batch, far)))
await queue.close()
const runs = ['run', 'burst', 'periodic'].some(part => given.parts.includes(part))
if (runs) await run('warm', given.warm)
if (given.parts.includes('run')) sayRun(given.count, await run('run', given.count))
if (given.parts.includes('burst')) await burst(given.count)
if (given.parts.includes('periodic')) await periodic(given.count)
process.exit(0)
