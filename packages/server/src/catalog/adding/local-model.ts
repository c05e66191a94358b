import { readFileSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Driver } from '@baobab/core/engine/driver.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { factsOf, fileNames, ggufFiles } from '../defaults.ts';
import {
  type AddOptions,
  checkModality,
  ggufName,
  type ModelDraft,
  modalityFromName,
  modalityOfTask,
  ONNX_FILES,
  withoutUndefined,
} from './draft.ts';
import { choosePooling, POOLING_FILE } from './pooling.ts';
import { AddError, slugFrom } from './reference.ts';

const exists = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** Fails for a name that no file can have, such as one that is too long, and for a folder that may not be read. */
function look(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new AddError(`${path} cannot be read: ${systemReason(error)}`);
  }
}

/** A GGUF file, or a folder with an ONNX model and its tokenizer. */
export function draftLocalModel(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  const found = look(path);
  if (found === undefined) throw new AddError(`there is no file or folder ${path}`);
  return found.isFile() ? draftGguf(path, options, drivers) : draftOnnx(path, options, drivers);
}

function draftGguf(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  if (!path.endsWith('.gguf')) throw new AddError(`${path} is not a .gguf file; give a folder for an ONNX model`);
  const files = ggufFiles(basename(path), drivers);
  const missing = files.filter((file) => !exists(join(dirname(path), file)));
  if (missing.length > 0) {
    throw new AddError(`${path} is one of ${files.length} parts of a model; put beside it: ${missing.join(', ')}`);
  }
  const [model = ''] = files;
  const source = { kind: 'file', path: join(dirname(path), model) };
  const facts = factsOf({ engine: { driver: 'llama', task: 'chat', model }, source }, drivers);
  if (facts.contextLength === undefined && facts.task === undefined) {
    throw new AddError(`${path} has no GGUF metadata: it is not a model, or not whole`);
  }
  const name = ggufName(path);
  return { entry: entryOf({ slug: slugFrom('local', name), name, facts, options }, source) };
}

function draftOnnx(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  const source = { kind: 'file', path };
  const engine = drivers.find(({ name }) => name === 'onnx')?.local?.recognise?.(fileNames(source));
  if (engine === undefined) throw new AddError(`${path} has no ${ONNX_FILES}`);
  if (!exists(`${path}/tokenizer.json`)) throw new AddError(`${path} has no tokenizer.json`);
  const facts = factsOf({ engine: { ...engine, driver: 'onnx' }, source }, drivers);
  const task = facts.task ?? (engine.decoder === undefined ? undefined : 'transcription');
  checkModality(options.modality, task);
  const name = basename(path) || basename(dirname(path));
  const entry = entryOf({ slug: slugFrom('local', name), name, facts: { ...facts, task }, options }, source);
  if (entry.modality !== 'embedding' || facts.images === true) return { entry };
  const { engine: pooling, notes } = choosePooling(name, options.pooling, readJson(`${path}/${POOLING_FILE}`));
  return { entry: withoutUndefined({ ...entry, engine: pooling }), notes };
}

function readJson(path: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

interface Found {
  slug: string;
  name: string;
  facts: ReturnType<typeof factsOf>;
  options: AddOptions;
}

function entryOf({ slug, name, facts, options }: Found, source: object): ModelDraft['entry'] {
  const modality = options.modality ?? modalityOfTask(facts.task) ?? modalityFromName(name);
  const dimensions = options.dimensions ?? (modality === 'embedding' ? facts.dimensions : undefined);
  if (modality === 'embedding' && dimensions === undefined) {
    throw new AddError(`the length of its vectors is not in the weights; add --dimensions 384 with the right number`);
  }
  return withoutUndefined({
    slug: options.slug ?? slug,
    modality,
    description: `${name}, added with models add`,
    context_length: options.contextLength ?? facts.contextLength,
    dimensions,
    capabilities: facts.images === true && modality === 'embedding' ? { vision: true } : undefined,
    source,
  });
}
