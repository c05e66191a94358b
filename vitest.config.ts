import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // They only end what hangs: a machine may be slow. Tests that promise a time measure it themselves.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // Engine processes are started by tests; more workers than cores would only make them wait for each other.
    maxWorkers: 2,
    reporters: ['default', './scripts/count-reporter.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: ['test/acceptance/**'],
        },
      },
      {
        extends: true,
        test: {
          name: 'acceptance',
          include: ['test/acceptance/**/*.test.ts'],
          globalSetup: './test/acceptance/shared-server.ts',
        },
      },
    ],
  },
});
