import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import type { ParsedTexts } from '../validation/document.ts';
import { INSTALLATION } from './built-in.ts';

/** Counts changes of what a YAML text becomes. */
const FORMAT = 1;

interface ParsedCatalog extends ParsedTexts {
  /** Writes the texts of this start if there are new ones, without those that it did not read. */
  save(): void;
}

/** JSON of the values by their texts. */
type Values = Readonly<Record<string, string>>;

function read(path: string): Values {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return {};
  }
}

/**
 * The files of the built-in catalog as values, kept beside Node's compiled code: to parse them takes an eighth of the processor time of
 * a start. Undefined where Node keeps no code.
 */
export function openParsedCatalog(folder = getCompileCacheDir()): ParsedCatalog | undefined {
  if (folder === undefined) return undefined;
  const place = createHash('sha256').update(INSTALLATION).digest('hex').slice(0, 16);
  const path = join(folder, `catalog-${FORMAT}-${place}.json`);
  const known = read(path);
  const used: Record<string, string> = {};
  let hasNew = false;
  return {
    get(text) {
      const json = known[text];
      if (json === undefined) return undefined;
      used[text] = json;
      return JSON.parse(json);
    },
    add(text, value) {
      used[text] = JSON.stringify(value);
      hasNew = true;
    },
    save() {
      if (!hasNew) return;
      const written = `${path}.${process.pid}`;
      try {
        writeFileSync(written, JSON.stringify(used));
        renameSync(written, path);
      } catch {
        // The next start parses again.
      }
    },
  };
}
