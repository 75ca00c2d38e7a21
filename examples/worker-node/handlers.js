// What jobs {"call": NAME} call, each in a process of its own. What they print is the run's output, what they return
// its result. `signal` is aborted when the run is asked to end.
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export const handlers = {
  greet: async ({ params }) => {
    console.log(`greeting ${params.name}`)
    return { greeting: `Hello ${params.name}` }
  },

  // Prints a line for each number, or writes it to `file`, with the fencing token.
  count: async ({ token, params }, signal) => {
    for (let n = 1; n <= params.to; n++) {
      const line = `${token} ${n} ${params.line ?? ''}\n`
      if (params.file) appendFileSync(params.file, line)
      else process.stdout.write(line)
      if (params.every_ms) await sleep(params.every_ms, undefined, { signal })
    }
    return params.to
  },

  fail: async ({ attempt }) => {
    throw new Error(`attempt ${attempt} fails, as it was asked to`)
  },
}
