import { expect, it } from 'vitest';
import { childEnvironment } from './child-environment.ts';

it('passes on what programs need, and no secrets', () => {
  const given = {
    PATH: '/bin',
    LC_ALL: 'C',
    CUDA_VISIBLE_DEVICES: '0',
    BAOBAB_API_KEY: 'secret',
    HF_TOKEN: 'secret',
    HOME: undefined,
  };
  expect(childEnvironment(given)).toMatchObject({ PATH: '/bin', LC_ALL: 'C', CUDA_VISIBLE_DEVICES: '0' });
  expect(JSON.stringify(childEnvironment(given))).not.toContain('secret');
});

it("switches the reports of onnxruntime off, whatever the server's own environment says", () => {
  expect(childEnvironment({ ORT_DISABLE_TELEMETRY: '0' })).toEqual({ ORT_DISABLE_TELEMETRY: '1' });
});
