// A thread beside a handler. Each line of the input is the time at which this process has to be dead, a later one at
// each renewal of the lease; its end is the death of the worker. So a handler that computes for hours, and a worker
// that is stopped, need do nothing for the run to end in time.
import { createInterface } from 'node:readline'
import { createReadStream } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { bootMs } from './clock.js'

const dieAll = () => process.kill(-process.pid, 'SIGKILL') // this process and all of its group
let deadAt

createInterface({ input: createReadStream(null, { fd: 0 }) })
  .on('line', line => {
    if (deadAt === undefined) parentPort.postMessage('watching')
    deadAt = Number(line)
    look()
  })
  .on('close', dieAll)

const look = () => { if (!(bootMs() < deadAt)) dieAll() }
setInterval(() => { if (deadAt !== undefined) look() }, 50)
