import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { type Modality, TASKS_OF_MODALITY } from '../../domain/model.ts';
import type { Driver } from '../../engines/driver.ts';
import { factsOf } from '../defaults.ts';
import { type AddOptions, type ModelDraft, modalityFromName, ONNX_MODELS, withoutUndefined } from './draft.ts';
import { AddError, slugFrom } from './reference.ts';

const exists = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

const modalityOf = (task: string | undefined): Modality | undefined =>
  (Object.keys(TASKS_OF_MODALITY) as Modality[]).find((each) =>
    (TASKS_OF_MODALITY[each] as readonly string[]).includes(task ?? ''),
  );

/** A GGUF file, or a folder with an ONNX model and its tokenizer. */
export function draftLocalModel(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new AddError(`there is no file or folder ${path}`);
  return found.isFile() ? draftGguf(path, options, drivers) : draftOnnx(path, options, drivers);
}

function draftGguf(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  if (!path.endsWith('.gguf')) throw new AddError(`${path} is not a .gguf file; give a folder for an ONNX model`);
  const engine = { driver: 'llama', task: 'chat', model: basename(path) };
  const facts = factsOf({ engine, source: { kind: 'file', path } }, drivers);
  if (facts.contextLength === undefined && facts.task === undefined) {
    throw new AddError(`${path} has no GGUF metadata: it is not a model, or only a part of one`);
  }
  const name = basename(path, '.gguf');
  return {
    entry: entryOf({ slug: slugFrom('local', name), name, facts, options }, { kind: 'file', path }),
  };
}

function draftOnnx(path: string, options: AddOptions, drivers: readonly Driver[]): ModelDraft {
  const model = ONNX_MODELS.find((each) => exists(`${path}/${each}`));
  if (model === undefined) throw new AddError(`${path} has none of ${ONNX_MODELS.join(', ')}`);
  if (!exists(`${path}/tokenizer.json`)) throw new AddError(`${path} has no tokenizer.json`);
  const engine = { driver: 'onnx', task: 'embedding', model, tokenizer: 'tokenizer.json' };
  const facts = factsOf({ engine, source: { kind: 'file', path } }, drivers);
  const name = basename(path) || basename(dirname(path));
  return { entry: entryOf({ slug: slugFrom('local', name), name, facts, options }, { kind: 'file', path }) };
}

interface Found {
  slug: string;
  name: string;
  facts: ReturnType<typeof factsOf>;
  options: AddOptions;
}

function entryOf({ slug, name, facts, options }: Found, source: object): ModelDraft['entry'] {
  const modality = options.modality ?? modalityOf(facts.task) ?? modalityFromName(name);
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
    source,
  });
}
