import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // They only end what hangs: a machine may be slow. Tests that promise a time measure it themselves.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // Engine processes are started by tests; more workers than cores would only make them wait for each other.
    maxWorkers: 2,
    reporters: ['default', './scripts/count-reporter.ts'],
  },
});
