import { describe, expect, it } from 'vitest';
import { runSelfTest } from './self-test-run.ts';

const environment = { PATH: process.env.PATH };
const script = (name: string) => new URL(`./testing/${name}`, import.meta.url);

describe('the self-test of a backend', () => {
  it('decodes a tiny model', async () => {
    const outcome = await runSelfTest({ backend: 'cpu', environment });
    expect(outcome).toEqual({ works: true, names: [], memoryBytes: 0 });
  });

  it('survives an abort and says why it happened', async () => {
    const outcome = await runSelfTest({ backend: 'cuda', environment, script: script('aborting-self-test.ts') });
    expect(outcome).toEqual({
      works: false,
      reason: 'CUDA error: the provided PTX was compiled with an unsupported toolchain.',
    });
  });

  it('fails for a backend that is not installed', async () => {
    const outcome = await runSelfTest({ backend: 'vulkan', environment });
    expect(outcome).toMatchObject({ works: false, reason: expect.stringContaining('NoBinaryFound') });
  });

  it('gives up on a backend that hangs', async () => {
    const outcome = await runSelfTest({
      backend: 'cuda',
      environment,
      script: script('hanging-self-test.ts'),
      timeoutMs: 200,
    });
    expect(outcome).toEqual({ works: false, reason: 'it took longer than 0.2 s' });
  });

  it('has no outcome where no process can be started', async () => {
    const { execPath } = process;
    process.execPath = '/nowhere/node';
    try {
      await expect(runSelfTest({ backend: 'cpu', environment })).rejects.toThrow('ENOENT');
    } finally {
      process.execPath = execPath;
    }
  });
});
