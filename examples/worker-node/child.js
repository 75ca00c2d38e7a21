import { spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bootMs } from './clock.js'

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
    const text = content(this.said)
    const { result, error } = text ? JSON.parse(text) : {}
    if (text && error === undefined) return { ...about, outcome: 'succeeded', result: result ?? null }
    if (this.timedOut) return { ...about, outcome: 'timed_out' }
    if (this.asked) return { ...about, outcome: 'killed' }
    if (text) return { ...about, outcome: 'failed', error: clip(this.output.hide(Buffer.from(error)).toString()) }
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

function content(file) {
  const raw = Buffer.alloc(fstatSync(file).size)
  readSync(file, raw, 0, raw.length, 0)
  return raw.toString()
}

const clip = text => (text.length > 1000 ? `${text.slice(0, 1000)} ...` : text)
