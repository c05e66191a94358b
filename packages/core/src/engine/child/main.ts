import { writeFile } from 'node:fs/promises';
import { endWithParent } from '../../runtime/end-with-parent.ts';
import type { DriverModule } from '../driver.ts';
import { createFrameChannel } from '../wire/frames.ts';
import { CAPABILITIES, type FromEngine, type ToEngine, toWireError } from '../wire/messages.ts';
import { createEngineCalls } from './engine-calls.ts';

/** Entry of an engine process: serves one model over the pipe on file descriptor 3. Argument: process id of the server. */

const PIPE = 3;

// Only a closed pipe ends this process. Ctrl-C and service managers signal the whole group, while the server still has requests to
// finish.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});

// When memory runs out, the kernel should kill an engine and not the server.
writeFile('/proc/self/oom_score_adj', '500').catch(() => {});

// A driver stuck in native code would never notice that the pipe has closed.
endWithParent(Number(process.argv[2]));

let calls: ReturnType<typeof createEngineCalls> | undefined;
let dispose: () => PromiseLike<void> = async () => {};

const channel = createFrameChannel<FromEngine, ToEngine>(PIPE, {
  onFrame(message, body) {
    switch (message.type) {
      case 'load':
        void load(message);
        break;
      case 'call':
        calls?.start(message, body);
        break;
      case 'cancel':
        calls?.cancel(message.id);
        break;
      case 'credit':
        calls?.credit(message.id, message.count);
        break;
      case 'close':
        void dispose().then(
          () => process.exit(0),
          () => process.exit(0),
        );
        break;
    }
  },
  onClose: () => process.exit(0),
});

async function load(message: Extract<ToEngine, { type: 'load' }>): Promise<void> {
  process.title = `baobab-engine ${message.spec.slug}@${message.spec.version}`;
  const startedAt = performance.now();
  setInterval(() => {
    const { user, system } = process.cpuUsage();
    channel.write({ type: 'heartbeat', residentBytes: process.memoryUsage.rss(), cpuMs: (user + system) / 1000 });
  }, message.heartbeatMs);
  try {
    const driver: DriverModule = await import(message.module);
    const model = await driver.load(message.spec);
    dispose = () => model[Symbol.asyncDispose]();
    calls = createEngineCalls(model, channel);
    channel.write({
      type: 'ready',
      capabilities: CAPABILITIES.filter((name) => model[name] !== undefined),
      loadMs: Math.round(performance.now() - startedAt),
      device: model.device,
    });
  } catch (error) {
    channel.write({ type: 'failed', error: toWireError(error) });
  }
}
