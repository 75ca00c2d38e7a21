// The process of one run. File 3 holds the run; the last line that is written to file 4 is what came of it.
import { readFileSync, writeSync } from 'node:fs'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { handlers } from './handlers.js'

const run = JSON.parse(readFileSync(3, 'utf8'))
const guard = new Worker(new URL('./guard.js', import.meta.url), { stdin: false })
await once(guard, 'message') // nothing begins unwatched
guard.unref()

const asked = new AbortController()
process.on('SIGTERM', () => asked.abort())
let said
try {
  said = { result: await handlers[run.handler.call](run, asked.signal) }
} catch (error) {
  said = { error: String(error?.message ?? error) }
}
writeSync(4, JSON.stringify(said))
process.exit(0)
