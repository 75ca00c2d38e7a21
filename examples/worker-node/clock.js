import { readFileSync } from 'node:fs'

// Milliseconds since boot: nobody sets them, and they run on while the machine sleeps. process.hrtime stands still then.
export const bootMs = () => Math.round(parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1000)
