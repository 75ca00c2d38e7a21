// Handlers of the tests, beside those of examples/worker-node.
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { handlers as own } from './own.js'

export const handlers = {
  ...own,

  // Prints half of its lines, the others when there is a file called `gate`.
  halves: async ({ token, params }) => {
    for (let n = 1; n <= params.to; n++) {
      process.stdout.write(`${token} ${n} ${'x'.repeat(60)}\n`)
      while (n === params.to / 2 && !existsSync(params.gate)) await sleep(50)
    }
  },
}
