import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders with the slowest files, slowest first. */
const SLOW_FOLDERS = ['/test/models/', '/test/acceptance/', '/test/integration/'];

/** Starts slow files first, so that no worker is left with a long one at the end. A fresh clone knows no durations. */
class SlowFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = SLOW_FOLDERS.findIndex((folder) => moduleId.includes(folder));
      return found === -1 ? SLOW_FOLDERS.length : found;
    };
    return (await super.sort(files)).toSorted((left, right) => rank(left) - rank(right));
  }
}

/** A process for each file: they bring native code into it, or measure its event loop or memory. */
const ALONE = [
  'test/models/**/*.test.ts',
  ...['chat', 'http/large-bodies', 'http/spent-budget'].map((name) => `test/integration/${name}.test.ts`),
];

// As bin/baobab.mjs does it: the servers and commands that tests start find their code compiled, in their threads too.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled');

export default defineConfig({
  test: {
    // They only end what hangs: a machine may be slow. Tests that promise a time measure it themselves.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // Some tests load onnxruntime themselves, which would report to Microsoft.
    env: { ORT_DISABLE_TELEMETRY: '1' },
    // One more than cores to plan for: tests wait for leases of killed servers, timers and the disk. Two left an eighth of two cores idle.
    maxWorkers: 3,
    reporters: ['default', './scripts/count-reporter.ts'],
    sequence: { sequencer: SlowFilesFirst },
    projects: [
      // One worker for many files, where they bring no native code into it: to import the server takes two seconds of a core.
      {
        extends: true,
        test: { name: 'unit', include: ['packages/*/src/**/*.test.ts'], isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: ['test/acceptance/**', ...ALONE],
          isolate: false,
          globalSetup: './test/fixtures/shared-postgres.ts',
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: ALONE },
      },
      {
        extends: true,
        test: {
          name: 'acceptance',
          include: ['test/acceptance/**/*.test.ts'],
          isolate: false,
          globalSetup: ['./test/acceptance/shared-server.ts', './test/fixtures/shared-postgres.ts'],
        },
      },
    ],
  },
});
