import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Engine processes are started by tests; more workers than cores would only make them wait for each other.
    maxWorkers: 2,
    reporters: ['default', './scripts/count-reporter.ts'],
  },
});
