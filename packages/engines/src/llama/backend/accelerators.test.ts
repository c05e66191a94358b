import type { MachineFacts } from '@baobab/core/engine/driver.ts';
import { describe, expect, it } from 'vitest';
import { createAccelerators, type Machine } from './accelerators.ts';
import type { SelfTestOutcome } from './self-test-run.ts';

const PTX: SelfTestOutcome = {
  works: false,
  reason: 'CUDA error: the provided PTX was compiled with an unsupported toolchain.',
};
const H200: SelfTestOutcome = { works: true, names: ['NVIDIA H200'], memoryBytes: 139e9 };

function memory(): MachineFacts {
  const facts = new Map<string, unknown>();
  return { get: (name) => facts.get(name), set: (name, value) => void facts.set(name, value) };
}

interface BedOptions {
  outcomes?: Record<string, SelfTestOutcome>;
  llamaGpu?: string;
  facts?: MachineFacts;
  driver?: string;
  gpu?: 'nvidia' | 'other' | undefined;
  built?: boolean;
}

function bed({
  outcomes = {},
  llamaGpu = 'auto',
  facts = memory(),
  driver = '580',
  built = false,
  ...rest
}: BedOptions) {
  const tested: string[] = [];
  const warnings: { facts: object; text: string }[] = [];
  const machine: Machine = {
    gpu: () => ('gpu' in rest ? rest.gpu : 'nvidia'),
    fingerprint: (backend) => (backend in outcomes ? `${backend} ${driver}` : undefined),
    isBuiltHere: () => built,
    async selfTest(backend) {
      tested.push(backend);
      return outcomes[backend] ?? { works: false, reason: 'not there' };
    },
  };
  const logger = { info() {}, warn: (facts: object, text: string) => void warnings.push({ facts, text }) };
  const accelerators = createAccelerators({ settings: { llamaGpu }, machine: facts, environment: {}, logger }, machine);
  return { accelerators, machine, tested, warnings };
}

describe('the accelerator of llama models', () => {
  it('is the first backend that decodes', async () => {
    const { accelerators, tested } = bed({ outcomes: { cuda: H200, vulkan: H200 } });
    expect(await accelerators.choose()).toEqual({ backend: 'cuda', names: ['NVIDIA H200'], memoryBytes: 139e9 });
    expect(await accelerators.choose()).toMatchObject({ backend: 'cuda' });
    expect(tested).toEqual(['cuda']);
  });

  it('leaves out a backend that aborts, with one line that says why and what to do', async () => {
    const { accelerators, warnings } = bed({ outcomes: { cuda: PTX, vulkan: H200 } });
    expect(await accelerators.choose()).toMatchObject({ backend: 'vulkan' });
    expect(warnings).toEqual([
      {
        text: 'a GPU backend of llama.cpp fails on this machine and is left out',
        facts: {
          backend: 'cuda',
          reason: 'CUDA error: the provided PTX was compiled with an unsupported toolchain.',
          remedy: 'Build it on this machine: npx baobab gpu build --backend cuda',
        },
      },
    ]);
  });

  it('is looked for again after a test that could not be made', async () => {
    const { accelerators, machine } = bed({ outcomes: { cuda: H200 } });
    const selfTest = machine.selfTest;
    machine.selfTest = () => Promise.reject(new Error('no space left on device'));
    await expect(accelerators.choose()).rejects.toThrow('no space left on device');
    machine.selfTest = selfTest;
    expect(await accelerators.choose()).toMatchObject({ backend: 'cuda' });
  });

  it('is the processor when every backend fails', async () => {
    const { accelerators } = bed({ outcomes: { cuda: PTX, vulkan: { works: false, reason: 'no device' } } });
    expect(await accelerators.choose()).toEqual({ backend: 'cpu', names: [], memoryBytes: 0 });
  });

  it('remembers what it found until the driver or the runtime changes', async () => {
    const facts = memory();
    const outcomes = { cuda: PTX };
    await bed({ outcomes, facts }).accelerators.choose();
    const second = bed({ outcomes, facts });
    expect(await second.accelerators.choose()).toMatchObject({ backend: 'cpu' });
    expect(second.tested).toEqual([]);
    expect(second.warnings).toHaveLength(1);
    const updated = bed({ outcomes: { cuda: H200 }, facts, driver: '590' });
    expect(await updated.accelerators.choose()).toMatchObject({ backend: 'cuda' });
    expect(updated.tested).toEqual(['cuda']);
  });

  it('is tested again on request', async () => {
    const facts = memory();
    await bed({ outcomes: { cuda: PTX }, facts }).accelerators.choose();
    const { accelerators, tested } = bed({ outcomes: { cuda: H200 }, facts });
    expect(await accelerators.test()).toMatchObject([{ backend: 'cuda', works: true }]);
    expect(tested).toEqual(['cuda']);
  });

  it('is the processor without a test when there is no GPU or it is turned off', async () => {
    for (const options of [{ gpu: undefined }, { llamaGpu: 'off' }]) {
      const { accelerators, tested, warnings } = bed({ outcomes: { cuda: H200 }, ...options });
      expect(await accelerators.choose()).toMatchObject({ backend: 'cpu' });
      expect({ tested, warnings }).toEqual({ tested: [], warnings: [] });
    }
  });

  it('says how to use a GPU that no backend is installed for', async () => {
    const { accelerators, warnings } = bed({});
    expect(await accelerators.choose()).toMatchObject({ backend: 'cpu' });
    expect(warnings).toMatchObject([{ facts: { remedy: expect.stringContaining('npx baobab gpu build') } }]);
  });

  it('tries only the backend of the setting', async () => {
    const { accelerators, tested } = bed({ outcomes: { cuda: H200, vulkan: H200 }, llamaGpu: 'vulkan' });
    expect(await accelerators.choose()).toMatchObject({ backend: 'vulkan' });
    expect(tested).toEqual(['vulkan']);
  });

  it('names another remedy for a backend that was built here', async () => {
    const { accelerators, warnings } = bed({ outcomes: { cuda: PTX }, built: true });
    await accelerators.choose();
    expect(warnings).toMatchObject([{ facts: { remedy: expect.stringContaining('driver') } }]);
  });
});
