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
let said, odd
const finite = (_, value) => {
  if (typeof value === 'number' && !Number.isFinite(value)) odd = `the result has ${value}, which JSON does not know: it is null`
  return value
}
try {
  const result = await handlers[run.handler.call](run, asked.signal)
  said = JSON.stringify({ result }, finite) // throws for what is no JSON at all
  if (odd) said = JSON.stringify({ result, note: odd })
} catch (error) {
  said = JSON.stringify({ error: String(error?.message ?? error).slice(0, 10_000) })
}
writeSync(4, said)
process.exit(0)
