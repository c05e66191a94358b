import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMachineFacts } from './machine-facts.ts';

let directory: string;
const warnings: string[] = [];
const logger = { warn: (_: object, text: string) => warnings.push(text) };

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'machine-'));
  warnings.length = 0;
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('facts about the machine', () => {
  it('outlive the process', () => {
    const path = join(directory, 'machine.json');
    createMachineFacts(path, logger).set('a', { works: true });
    const later = createMachineFacts(path, logger);
    later.set('b', 2);
    expect(createMachineFacts(path, logger).get('a')).toEqual({ works: true });
    expect(createMachineFacts(path, logger).get('b')).toBe(2);
  });

  it('create a directory that is not there yet', () => {
    const path = join(directory, 'data', 'machine.json');
    createMachineFacts(path, logger).set('a', 1);
    expect(createMachineFacts(path, logger).get('a')).toBe(1);
    expect(warnings).toEqual([]);
  });

  it('start empty when the file is broken', () => {
    const path = join(directory, 'machine.json');
    for (const content of ['{"a": ', '[1]', 'null', '"a"']) {
      writeFileSync(path, content);
      expect(createMachineFacts(path, logger).get('a')).toBeUndefined();
    }
    expect(warnings).toEqual([]);
  });

  it('stay in memory when the file cannot be written', () => {
    writeFileSync(join(directory, 'file'), '');
    const facts = createMachineFacts(join(directory, 'file', 'machine.json'), logger);
    facts.set('a', 1);
    expect(facts.get('a')).toBe(1);
    expect(warnings).toHaveLength(1);
  });
});
