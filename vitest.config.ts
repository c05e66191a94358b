import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Projects in the order in which they run, slowest files first. */
const ORDER = ['models', 'acceptance', 'integration', 'unit'];

/**
 * Starts slow files first, so that no worker is left with a long one at the end; a fresh clone knows no durations. The files of a
 * project follow each other: a worker is kept for the next file of its project only.
 */
class SlowFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => ORDER.indexOf(project.name);
    return (await super.sort(files)).toSorted((left, right) => rank(left) - rank(right));
  }
}

export default defineConfig({
  test: {
    // They only end what hangs: a machine may be slow. Tests that promise a time measure it themselves.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // One more than the cores of a small machine, because files that wait for leases and timers leave theirs idle. Tests start engine
    // processes: with more, these would only wait for each other.
    maxWorkers: 3,
    // One worker for many files: starting one for each and importing the service again takes longer than many of them run.
    isolate: false,
    reporters: ['default', './scripts/count-reporter.ts'],
    sequence: { sequencer: SlowFilesFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'models',
          include: ['test/models/**/*.test.ts'],
          // Native libraries keep the memory of closed models.
          isolate: true,
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
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: ['test/acceptance/**', 'test/models/**'],
        },
      },
      {
        extends: true,
        test: { name: 'unit', include: ['src/**/*.test.ts', 'console/**/*.test.ts'] },
      },
    ],
  },
});
