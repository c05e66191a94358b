import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Script {
  readonly text: string;
  /** Names the script in `EVALSHA`. */
  readonly digest: string;
}

const read = (name: string) => readFileSync(join(import.meta.dirname, 'scripts', `${name}.lua`), 'utf8');

const SHARED = read('shared');

function load(name: string): Script {
  const text = `${SHARED}\n${read(name)}`;
  return { text, digest: createHash('sha1').update(text).digest('hex') };
}

export const SCRIPTS = {
  admit: load('admit'),
  extend: load('extend'),
  settle: load('settle'),
  renew: load('renew'),
  levels: load('levels'),
  setSpent: load('set-spent'),
  join: load('join'),
  restore: load('restore'),
  leave: load('leave'),
};
