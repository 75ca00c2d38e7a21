// A remote worker of raftsched: it takes runs of jobs {"call": NAME}, each in a process of its own. Linux only.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { Child, clip } from './child.js'
import { bootMs } from './clock.js'
import { handlers } from './handlers.js'

const INLINE_MAX = 32 * 1024 // bytes of output that go with the report
const PIECE_MAX = 256 * 1024
const REPORTS_MAX = 100 // in one poll
const REPORTS_BYTES = 1024 * 1024 // of them, and one more: a node reads 4 MiB
const REFUSED = 'Its report was refused: '

const { values: flags } = parseArgs({
  options: {
    servers: { type: 'string', default: process.env.RAFTSCHED_SERVERS }, // URLs of nodes, with commas between them
    name: { type: 'string', default: hostname() }, // of this worker, unlike that of all others
    slots: { type: 'string', default: '8' }, // runs at a time
    queues: { type: 'string' }, // whose runs it takes, with commas between them; all that its token allows
    grace: { type: 'string', default: '10' }, // seconds for runs to end, when the worker is told to
  },
})
if (!flags.servers) {
  console.error('worker: name the nodes with --servers, such as http://127.0.0.1:7401')
  process.exit(2)
}
const incarnation = randomBytes(16).toString('hex')

// ---- nodes: who does not answer is left for the next

const servers = flags.servers.split(',')

class Refusal extends Error {
  constructor(status, text) {
    super(`${status} ${text}`)
    this.status = status
    this.text = text
    this.final = status < 500 && status !== 429
    this.unreadable = [400, 413, 422].includes(status) // for what the request carried
  }

  get detail() {
    try {
      return JSON.parse(this.text).detail
    } catch {
      return this.message // what is no node, a proxy
    }
  }
}

// `secret`: of the session whose request it is
async function call(method, path, body, { limitMs = 5000, signal, secret } = {}) {
  const server = servers[0]
  const raw = Buffer.isBuffer(body)
  const headers = { 'Content-Type': raw ? 'application/octet-stream' : 'application/json' }
  if (process.env.RAFTSCHED_TOKEN) headers.Authorization = `Bearer ${process.env.RAFTSCHED_TOKEN}`
  if (secret) headers['Raftsched-Session-Secret'] = secret
  const limit = AbortSignal.timeout(limitMs)
  const late = new AbortController()
  const cancel = () => late.abort()
  limit.addEventListener('abort', cancel)
  signal?.addEventListener('abort', cancel)
  try {
    const reply = await fetch(server + path, { method, headers, body: raw ? body : JSON.stringify(body), signal: late.signal })
    const text = await reply.text()
    if (!reply.ok) throw new Refusal(reply.status, text.trim())
    return text ? JSON.parse(text) : null
  } catch (error) {
    if (!signal?.aborted && !error.final && servers[0] === server) servers.push(servers.shift())
    throw error
  } finally {
    limit.removeEventListener('abort', cancel)
    signal?.removeEventListener('abort', cancel)
  }
}

// ---- a session: what a worker holds until its lease is over

let stopping = false
let stopAt = Infinity
let session

class Session {
  after = 0
  running = new Map() // token -> Child
  reports = new Map() // token -> the newest report, until a poll with it was answered
  endings = new Set() // of runs
  most = REPORTS_MAX // that a poll carries now

  constructor(opened, sentAt) {
    this.path = `/v1/worker-sessions/${opened.session.split('-')[0]}` // its number
    this.secret = opened.session
    this.pollMs = opened.poll_ms
    this.killBefore = opened.kill_before_ms
    this.deadAt = sentAt + opened.lease_ms - this.killBefore // nothing may run any more
  }

  get over() {
    return bootMs() >= this.deadAt
  }

  // Works until the session is over, or the worker was told to stop and all has ended.
  async serve() {
    const timer = setInterval(() => this.look(), 50)
    try {
      while (!this.over && !(stopping && this.running.size === 0 && this.reports.size === 0)) await this.poll()
      if (!this.over) await this.close()
    } finally {
      this.deadAt = 0
      clearInterval(timer)
      this.killAll()
      await Promise.all(this.endings) // nothing is left of it when the next one is asked for
    }
  }

  // Does what the time says. Each run also watches its own end: this loop may stand still.
  look() {
    if (this.over) {
      this.waiting?.abort()
      this.killAll()
    }
    const now = bootMs()
    for (const child of this.running.values()) {
      if (now >= stopAt && child.killAt === Infinity) {
        child.asked = true
        child.stop(child.run.grace_ms)
      }
      child.look(now)
    }
  }

  // Ends a poll that only waits: there is something to say.
  hurry() {
    if (this.waiting && !this.reporting) this.waiting.abort()
  }

  async poll() {
    const reports = this.due()
    const killing = [...this.running].filter(([, child]) => child.asked).map(([token]) => token)
    const asked = { after: this.after, wait_ms: this.pollMs, max_runs: stopping ? 0 : Number(flags.slots), reports, killing }
    this.waiting = new AbortController()
    this.reporting = reports.length > 0
    const sentAt = bootMs()
    let answer
    try {
      answer = await call('POST', `${this.path}/poll`, asked, { limitMs: this.pollMs + 1500, signal: this.waiting.signal, secret: this.secret })
    } catch (error) {
      if (error.unreadable && reports.length > 0) {
        console.error(`reports were refused: ${error.message}`)
        if (reports.length > 1) this.most = reports.length >> 1 // one of them is wrong
        else if (this.reports.get(reports[0].token) === reports[0]) this.refused(reports[0], error.detail)
      } else if (error.final) {
        console.error(`the cluster: ${error.message}`) // 410, mostly
        this.deadAt = 0
      } else if (!this.waiting.signal.aborted) {
        console.error(`a poll failed: ${error.message}`)
        await sleep(100)
      }
      return
    } finally {
      this.waiting = undefined
    }
    if (this.over) return
    if (reports.length > 0) this.most = Math.min(REPORTS_MAX, 2 * this.most)
    const invalid = new Map(answer.refused.filter(one => one.code === 'invalid').map(one => [one.token, one.detail]))
    for (const sent of reports) {
      if (this.reports.get(sent.token) !== sent) continue // there is something newer to say
      if (invalid.has(sent.token)) this.refused(sent, invalid.get(sent.token))
      else this.reports.delete(sent.token)
    }
    const until = sentAt + answer.lease_ms - this.killBefore
    if (answer.lease_ms > 0 && until > this.deadAt) {
      this.deadAt = until
      for (const child of this.running.values()) child.renew(until)
    }
    for (const { token, code } of answer.refused) {
      if (code === 'invalid') continue
      const child = this.running.get(token)
      if (child) child.asked = true
      child?.signal('SIGKILL') // somebody else may have the run
    }
    for (const token of answer.kill) {
      const child = this.running.get(token)
      if (child) child.asked = true
      child?.stop(child.run.grace_ms)
    }
    for (const run of answer.runs) {
      if (run.token <= this.after) continue
      this.after = run.token
      this.begin(run)
    }
  }

  // Returns the reports that the next poll carries.
  due() {
    const due = []
    for (let bytes = 0, waiting = [...this.reports.values()]; due.length < this.most && bytes < REPORTS_BYTES && waiting.length > 0;) {
      due.push(waiting.shift())
      bytes += Buffer.byteLength(JSON.stringify(due.at(-1)))
    }
    return due
  }

  // No node takes this report: its run has failed by that, and no other one. What says no end can be left out.
  refused({ token, outcome, error }, why) {
    this.reports.delete(token)
    if (outcome && !error?.startsWith(REFUSED)) this.reports.set(token, { token, outcome: 'failed', error: clip(REFUSED + why) })
  }

  begin(run) {
    const { token } = run
    if (run.error) return this.reports.set(token, { token, outcome: 'failed', error: run.error }) // nobody can run it
    if (this.deadAt - bootMs() < this.killBefore) return this.reports.set(token, { token, outcome: 'not_begun' }) // less than twice K
    let child
    try {
      child = new Child(run, this.deadAt)
    } catch (error) {
      return this.reports.set(token, { token, outcome: 'not_begun', error: clip(error.message) })
    }
    this.running.set(token, child)
    this.reports.set(token, { token, started_at_ms: child.startedAt })
    const ending = this.end(child).finally(() => this.endings.delete(ending))
    this.endings.add(ending)
  }

  async end(child) {
    const { token } = child.run
    const ending = child.wait()
    const output = this.send(token, child.output, ending)
    const report = await ending
    report.output = await output
    child.close()
    this.running.delete(token)
    this.reports.set(token, report)
    this.hurry()
  }

  // Sends output while the run goes on, and all of it when it has ended. Returns what the report carries: the text
  // itself where it is short, else the place that the node has answered. With another node it begins again.
  async send(token, output, ending) {
    let ended = false
    ending.then(() => { ended = true })
    let offset = 0
    while (!this.over) {
      const over = ended // before its size is looked at
      const size = output.size()
      if (over && offset === 0 && size <= INLINE_MAX) return output.piece(0, INLINE_MAX, true).toString()
      if (size > INLINE_MAX || offset > 0) {
        const piece = output.piece(offset, PIECE_MAX, over)
        const last = over && offset + piece.length >= size
        if (piece.length > 0 || last) {
          try {
            const path = `${this.path}/runs/${token}/output?offset=${offset}&stream=stdout&end=${last}`
            const placed = await call('PUT', path, piece, { limitMs: 10_000, secret: this.secret })
            offset = placed.offset
            if (last && offset >= size) return placed.output
            continue
          } catch (error) {
            if (error.final && error.status !== 409) return null
            if (error.final) offset = JSON.parse(error.text).offset // another node has another part of it
          }
        }
      }
      await Promise.race(ended ? [sleep(200)] : [sleep(500), ending])
    }
    return null
  }

  killAll() {
    for (const child of this.running.values()) child.signal('SIGKILL')
  }

  // Hands the session back. Without it the cluster waits for the end of the lease.
  async close() {
    while (!this.over) {
      try {
        return await call('POST', `${this.path}/close`, { ran: [] }, { limitMs: 2000, secret: this.secret })
      } catch (error) {
        if (error.final) return
        await sleep(100)
      }
    }
  }
}

function stop() {
  stopAt = stopping ? bootMs() : bootMs() + 1000 * Number(flags.grace) // told twice: at once
  stopping = true
  session?.hurry()
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)

let opening = 0
while (!stopping) {
  const sentAt = bootMs()
  opening = Math.max(opening + 1, sentAt) // rises with each request, so that a late one ends no later session
  try {
    const opened = await call('POST', '/v1/worker-sessions', {
      name: flags.name,
      slots: Number(flags.slots),
      handlers: Object.keys(handlers).map(name => `call:${name}`),
      queues: flags.queues?.split(','),
      incarnation,
      opening,
      version: 'worker-node/2',
    })
    session = new Session(opened, sentAt)
  } catch (error) {
    console.error(`no session yet: ${error.message}`)
    if (error.final && error.status !== 409) process.exit(1)
    await sleep(500)
    continue
  }
  console.error(`${flags.name}: a session is open`)
  await session.serve()
  console.error(`${flags.name}: the session is over`)
}
process.exit(0)
