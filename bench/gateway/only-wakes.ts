/**
 * Measures the latency of the machine itself: wakes up at a fixed rate, computes for half of the time, and prints how late each wake-up
 * was, in ms. No server, no network, no other thread. `node only-wakes.ts <times per second> <seconds>`
 */
const perSecond = Number(process.argv[2]);
const beats = perSecond * Number(process.argv[3]);
const intervalMs = 1000 / perSecond;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const late = new Float64Array(beats);
const startedAt = performance.now();

for (let beat = 0; beat < beats; beat += 1) {
  const dueAt = startedAt + (beat + 1) * intervalMs;
  const restMs = dueAt - performance.now();
  if (restMs > 0) Atomics.wait(sleeper, 0, 0, restMs);
  const wokenAt = performance.now();
  late[beat] = wokenAt - dueAt;
  while (performance.now() - wokenAt < intervalMs / 2);
}
console.log(JSON.stringify(Array.from(late)));
