import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readProcessor } from './processor.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'processor-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function addThread(number: number, siblings: string, socket: number): void {
  const topology = join(directory, `cpu${number}`, 'topology');
  mkdirSync(topology, { recursive: true });
  writeFileSync(join(topology, 'thread_siblings_list'), `${siblings}\n`);
  writeFileSync(join(topology, 'physical_package_id'), `${socket}\n`);
}

describe('the processor', () => {
  it('counts threads of one core once', () => {
    for (const number of [0, 1, 2, 3]) addThread(number, `${number % 2},${(number % 2) + 2}`, number % 2);
    mkdirSync(join(directory, 'cpufreq'));
    expect(readProcessor(4, directory)).toEqual({ cores: 4, physicalCores: 2, sockets: 2 });
  });

  it('has no more cores than this process may use', () => {
    for (let number = 0; number < 16; number += 1) addThread(number, `${number}`, 0);
    expect(readProcessor(2, directory)).toEqual({ cores: 2, physicalCores: 2, sockets: 1 });
  });

  it('is taken as it is where the kernel does not describe it', () => {
    expect(readProcessor(8, join(directory, 'absent'))).toEqual({ cores: 8, physicalCores: 8, sockets: 1 });
  });
});
