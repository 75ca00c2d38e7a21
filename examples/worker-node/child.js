import { spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bootMs } from './clock.js'

const RESULT_MAX = 64 * 1024 // bytes of JSON that are kept of a result
const DEPTH_MAX = 64 // of lists and objects, one in the other
const SAID_MAX = 8 * RESULT_MAX // as it is written it may take six times as much
const TOO_LARGE = 'its result has more than 65,536 bytes, and was not kept'
const TOO_DEEP = 'its result nests deeper than 64 levels, and was not kept'
const program = new URL('./run.js', import.meta.url).pathname

// A run that was started, in a process group of its own.
export class Child {
  asked = false // to end: by the cluster, or because the worker stops
  timedOut = false
  killAt = Infinity // boot time

  constructor(run, deadAt) {
    this.run = run
    this.task = nameless()
    this.said = nameless()
    this.output = new Output(nameless(), run.secrets)
    writeSync(this.task, JSON.stringify(run), 0)
    this.process = spawn(process.execPath, [program], {
      detached: true,
      env: { ...process.env, ...run.env },
      stdio: ['pipe', this.output.file, this.output.file, this.task, this.said],
    })
    this.exit = once(this.process, 'exit') // rejects when it could not be started
    this.process.stdin.on('error', () => {}) // it has ended
    this.startedAt = Date.now()
    this.timeoutAt = bootMs() + run.timeout_ms
    this.renew(deadAt)
  }

  renew(deadAt) {
    this.process.stdin.write(`${deadAt}\n`)
  }

  // Returns whether there was anything to signal.
  signal(name) {
    try {
      return process.kill(-this.process.pid, name)
    } catch {
      return false
    }
  }

  stop(graceMs) {
    if (this.killAt < Infinity) return
    this.killAt = bootMs() + graceMs
    this.signal('SIGTERM')
  }

  look(now) {
    if (now >= this.timeoutAt && this.killAt === Infinity) {
      this.timedOut = true
      this.stop(this.run.grace_ms)
    }
    if (now >= this.killAt) this.signal('SIGKILL')
  }

  // Returns the report, when nothing is left of the group of processes.
  async wait() {
    const about = { token: this.run.token, started_at_ms: this.startedAt }
    let code, signal
    try {
      [code, signal] = await this.exit
    } catch (error) {
      return { token: this.run.token, outcome: 'not_begun', error: clip(String(error.message)) }
    }
    for (let i = 0; i < 100 && this.signal('SIGKILL'); i++) await sleep(10) // what its main process left behind
    about.ended_at_ms = Date.now()
    const said = sayings(this.said)
    if (said && said.failed === undefined) return { ...about, outcome: 'succeeded', ...said }
    if (this.timedOut) return { ...about, outcome: 'timed_out' }
    if (this.asked) return { ...about, outcome: 'killed' }
    if (said) return { ...about, outcome: 'failed', error: clip(this.output.hide(Buffer.from(said.failed)).toString()) }
    return { ...about, outcome: 'failed', error: `its process ended with ${signal ?? `exit code ${code}`}` }
  }

  close() {
    this.process.stdin?.destroy()
    for (const file of [this.task, this.said, this.output.file]) closeSync(file)
  }
}

// What a run prints: a file without a name, so that a run need not wait for the network.
export class Output {
  constructor(file, secrets = []) {
    this.file = file
    this.secrets = secrets.filter(secret => secret !== '').map(secret => Buffer.from(secret).latin1Slice())
    this.longest = Math.max(0, ...this.secrets.map(secret => secret.length))
  }

  // Covers the secrets in bytes, of which there are as many afterwards.
  hide(bytes) {
    const shown = this.secrets.reduce((text, each) => text.replaceAll(each, '*'.repeat(each.length)), bytes.latin1Slice())
    return Buffer.from(shown, 'latin1')
  }

  size() {
    return fstatSync(this.file).size
  }

  // Returns what is to be sent from an offset on; while the run goes on, less its end, which may be half a secret.
  piece(offset, most, ended) {
    const from = Math.max(0, offset - this.longest)
    const raw = Buffer.alloc(offset - from + most + this.longest)
    const count = readSync(this.file, raw, 0, raw.length, from)
    const whole = ended && count < raw.length
    const text = this.hide(raw.subarray(0, count))
    return text.subarray(offset - from, whole ? count : Math.max(offset - from, count - this.longest)).subarray(0, most)
  }
}

function nameless() {
  const directory = mkdtempSync(join(tmpdir(), 'worker-'))
  try {
    return openSync(join(directory, 'file'), 'w+', 0o600)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

// Returns what came of a run as a report may carry it: a result, and what is wrong with it, or why it has failed.
// Undefined: it said nothing. A result that no node would take must not cost the other runs their reports.
function sayings(file) {
  const raw = Buffer.alloc(Math.min(fstatSync(file).size, SAID_MAX))
  if (raw.length === 0) return undefined
  if (raw.length === SAID_MAX) return { result: null, error: TOO_LARGE }
  readSync(file, raw, 0, raw.length, 0)
  try {
    const { result = null, error, note } = JSON.parse(raw.toString())
    if (error !== undefined) return { failed: String(error) }
    const text = wellFormed(JSON.stringify(result))
    if (Buffer.byteLength(text) > RESULT_MAX) return { result: null, error: TOO_LARGE }
    if (depth(text) > DEPTH_MAX) return { result: null, error: TOO_DEEP }
    return { result: JSON.parse(text), error: note }
  } catch (error) {
    return { failed: `what it said last is no JSON: ${error.message}` }
  }
}

// JSON.stringify writes half of a surrogate pair, and nothing else, as \ud800 to \udfff: no node can read that.
const wellFormed = json => json.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, found => (found === '\\\\' ? found : '\ufffd'))

function depth(json) {
  let now = 0, most = 0
  for (const [sign] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (sign === '[' || sign === '{') most = Math.max(most, ++now)
    else if (sign === ']' || sign === '}') now--
  }
  return most
}

// Keeps an error within what a report may carry; a cut may go through a pair.
export const clip = text => Buffer.from(text.length > 1000 ? `${text.slice(0, 1000)} ...` : text).toString()
