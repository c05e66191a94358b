import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { MachineFacts } from '@baobab/core/engine/driver.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';

/**
 * Facts about this machine in a file. Without one, or when it cannot be read, they last as long as the process: everything in it can
 * be found out again.
 */
export function createMachineFacts(path: string | undefined, logger: Pick<Logger, 'warn'>): MachineFacts {
  const facts = new Map<string, unknown>(Object.entries(read(path)));
  return {
    get: (name) => facts.get(name),
    set(name, value) {
      facts.set(name, value);
      if (path === undefined) return;
      try {
        // `baobab gpu build` may run before the first start.
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
        // The rename replaces the file as a whole, so a crash leaves no half of it.
        writeFileSync(`${path}.new`, JSON.stringify(Object.fromEntries(facts), null, 2), { mode: 0o600 });
        renameSync(`${path}.new`, path);
      } catch (error) {
        logger.warn({ err: error, path }, 'failed to store facts about this machine');
      }
    },
  };
}

function read(path: string | undefined): Record<string, unknown> {
  if (path === undefined) return {};
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
  } catch {
    return {};
  }
}
