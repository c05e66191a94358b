import { createServer } from 'node:http';
import process from 'node:process';
import { isMainThread, Worker, workerData } from 'node:worker_threads';

/**
 * Preloaded into a server (`--import`): measures the longest turn of its event loop in processor time, which other processes on the
 * machine do not change. A timer ends a measurement in every round of the loop that begins a millisecond or more after the last one,
 * so that what it finds is at most a millisecond more than one turn. A thread of its own tells it, over HTTP at TURN_METER_PORT:
 * GET answers microseconds and begins anew.
 */
const LONGEST = 0;

function measure(shared) {
  const longest = new Int32Array(shared);
  let last = process.threadCpuUsage();
  setInterval(() => {
    const now = process.threadCpuUsage();
    const used = now.user - last.user + now.system - last.system;
    last = now;
    if (used > Atomics.load(longest, LONGEST)) Atomics.store(longest, LONGEST, used);
  }, 1).unref();
}

function report({ shared, port }) {
  const longest = new Int32Array(shared);
  createServer((_, answer) => answer.end(String(Atomics.exchange(longest, LONGEST, 0)))).listen(port, '127.0.0.1');
}

if (workerData?.isTurnMeter) report(workerData);
else if (isMainThread && process.env.TURN_METER_PORT !== undefined) {
  const shared = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  measure(shared);
  const data = { isTurnMeter: true, shared, port: Number(process.env.TURN_METER_PORT) };
  new Worker(new URL(import.meta.url), { workerData: data, execArgv: [], stdout: true }).unref();
}
