import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { UpstreamKind } from '../../packages/server/src/upstreams/dialects/dialects.ts';
import type { Task } from './launch/engine.ts';
import type { Exchange } from './recorder.ts';

/** What one feature asked Baobab, what it answered, and what it asked the engine for that. */
export interface Recording {
  engine: string;
  version: string;
  feature: string;
  model: {
    task: Task;
    kind: UpstreamKind;
    name: string;
    contextLength: number;
    dimensions?: number | undefined;
    vision?: boolean | undefined;
  };
  requests: { path: string; body: object; status: number; answer: string }[];
  exchanges: Exchange[];
}

const ROOT = join(import.meta.dirname, '../fixtures/engines');
/** Longer ones say no more and fill the repository. */
const MAX_BYTES = 60_000;

const fileName = (feature: string): string =>
  `${feature.replaceAll(/[^a-z0-9]+/gi, '-').replaceAll(/^-|-$/g, '')}.json`;

export function removeRecordings(engine: string): void {
  for (const folder of globSync(`${engine}-*`, { cwd: ROOT })) rmSync(join(ROOT, folder), { recursive: true });
}

/** Writes a recording unless it is too long. */
export function writeRecording(recording: Recording): void {
  const text = `${JSON.stringify(recording, undefined, 1)}\n`;
  if (text.length > MAX_BYTES) return;
  const folder = join(ROOT, `${recording.engine}-${recording.version}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, fileName(recording.feature)), text);
}

/** Recordings by engine and model: the features of one model share a service. */
export function readRecordings(): Map<string, Recording[]> {
  const groups = new Map<string, Recording[]>();
  for (const path of globSync('*/*.json', { cwd: ROOT }).toSorted()) {
    const recording: Recording = JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
    const { task, vision, name } = recording.model;
    const group = `${basename(dirname(path))}, ${task}${vision ? ' with images' : ''} of ${name}`;
    groups.set(group, [...(groups.get(group) ?? []), recording]);
  }
  return groups;
}

/** Fields that differ between runs. */
const VOLATILE = new Set(['id', 'created', 'cache_salt', 'request_id']);

/** An answer without what differs between runs. Streams are compared as text. */
export function comparable(text: string): unknown {
  const clean = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value, (name, each) => (VOLATILE.has(name) ? undefined : each)));
  // A slow stream begins with comments.
  if (text.startsWith('{')) return clean(JSON.parse(text));
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => clean(JSON.parse(event.slice(6))));
}

/** What a request is found by in a recording. */
export const requestKey = (path: string, body: unknown): string =>
  `${path} ${JSON.stringify(body, (name, each) => (name === 'cache_salt' ? undefined : each))}`;
