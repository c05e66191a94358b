import type { Modality } from '@baobab/core/domain/model.ts';
import type { Driver, WeightsPreview } from '@baobab/core/engine/driver.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { ggufFiles } from '../defaults.ts';
import {
  type AddOptions,
  checkModality,
  ggufName,
  type ModelDraft,
  modalityFromName,
  modalityOfTask,
  withoutUndefined,
} from './draft.ts';
import { choosePooling, POOLING_FILE } from './pooling.ts';
import { AddError, type ModelLocation, slugFrom } from './reference.ts';

export interface HubConnection {
  endpoint: string;
  token?: string | undefined;
  fetch: typeof fetch;
  signal?: AbortSignal | undefined;
  drivers: readonly Driver[];
}

type HubLocation = Extract<ModelLocation, { kind: 'hub' }>;
type Fields = Record<string, unknown>;

/** What the hub says of a repository, as far as it is used. */
interface HubModel {
  sha?: string;
  pipeline_tag?: string;
  cardData?: { license?: string; language?: string | string[] };
  gguf?: { architecture?: string; context_length?: number };
  siblings?: { rfilename: string; size?: number; lfs?: { sha256?: string; size?: number } }[];
}

type HubFile = NonNullable<HubModel['siblings']>[number];

const TIMEOUT_MS = 30_000;
const PIPELINES: Readonly<Record<string, Modality>> = {
  'feature-extraction': 'embedding',
  'sentence-similarity': 'embedding',
  'text-ranking': 'rerank',
  'text-generation': 'chat',
  'automatic-speech-recognition': 'audio',
};

/** Metadata of GGUF files comes before the vocabulary, well within this. */
const BEGINNING_BYTES = 256 * 1024;

async function send(hub: HubConnection, path: string, headers: Record<string, string> = {}): Promise<Response> {
  const address = `${hub.endpoint.replace(/\/$/, '')}${path}`;
  const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(hub.signal ? [hub.signal] : [])]);
  let answer: Response;
  try {
    const authorization = hub.token === undefined ? {} : { authorization: `Bearer ${hub.token}` };
    answer = await hub.fetch(address, { headers: { ...authorization, ...headers }, signal });
  } catch (error) {
    throw new AddError(`${address} cannot be reached: ${systemReason(error)}`);
  }
  if (answer.ok) return answer;
  await answer.body?.cancel();
  const hint = [401, 403].includes(answer.status) ? '; it may not exist, or need a token in models.hf_token' : '';
  throw new AddError(`${address} answered ${answer.status}${hint}`);
}

const ask = async (hub: HubConnection, path: string): Promise<Fields> =>
  (await (await send(hub, path)).json()) as Fields;

/** The first bytes of a file. A server may send all of it, of which the rest is not read. */
async function beginningOf(hub: HubConnection, path: string): Promise<Buffer> {
  const { body } = await send(hub, path, { range: `bytes=0-${BEGINNING_BYTES - 1}` });
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes >= BEGINNING_BYTES) break;
  }
  return Buffer.concat(chunks);
}

/** A model of a Hugging Face hub, with the revision pinned to the commit that is current now. */
export async function draftHubModel(
  location: HubLocation,
  options: AddOptions,
  hub: HubConnection,
): Promise<ModelDraft> {
  const { drivers } = hub;
  const { repo } = location;
  const path = `/api/models/${repo}/revision/${encodeURIComponent(location.revision)}?blobs=true`;
  const model = (await ask(hub, path)) as HubModel;
  const { sha, siblings = [] } = model;
  if (sha === undefined) throw new AddError(`the hub gives no commit for ${repo}`);
  const at = (file: string) => `/${repo}/resolve/${sha}/${file.split('/').map(encodeURIComponent).join('/')}`;
  const has = (file: string) => siblings.some(({ rfilename }) => rfilename === file);

  const ggufs = siblings.filter(({ rfilename }) => isGguf(rfilename));
  const { files, preview, images } =
    ggufs.length > 0
      ? await chooseGguf(ggufs, location, { drivers, read: (file) => beginningOf(hub, at(file)) })
      : await chooseOnnx(siblings, { repo, drivers, read: (file) => ask(hub, at(file)) });
  const facts = drivers.map(({ local }) => local?.previewFacts?.(preview) ?? {}).find(({ task }) => task !== undefined);

  checkModality(options.modality, facts?.task);
  const modality = options.modality ?? modalityOfTask(facts?.task) ?? modalityOf(model, repo);
  const isEmbedding = modality === 'embedding';
  const dimensions = options.dimensions ?? (isEmbedding ? facts?.dimensions : undefined);
  if (isEmbedding && dimensions === undefined) {
    throw new AddError('the hub does not say how long its vectors are; add --dimensions 768 with the right number');
  }
  const pooling =
    isEmbedding && ggufs.length === 0 && images !== true
      ? choosePooling(repo, options.pooling, has(POOLING_FILE) ? await ask(hub, at(POOLING_FILE)) : undefined)
      : undefined;
  const [provider = '', name = ''] = repo.split('/');
  const languages = [model.cardData?.language ?? []].flat();
  return {
    entry: withoutUndefined({
      slug: options.slug ?? slugFrom(provider, name.replace(/-gguf$/i, '')),
      modality,
      description: `${repo}, added with models add`,
      license: model.cardData?.license,
      languages: languages.length > 0 ? languages : undefined,
      context_length: options.contextLength ?? facts?.contextLength ?? model.gguf?.context_length,
      dimensions,
      capabilities: isEmbedding && images === true ? { vision: true } : undefined,
      engine: pooling?.engine,
      source: { kind: 'hf', repo, revision: sha, files: files.map(fileEntry) },
    }),
    notes: pooling?.notes,
    longSlug: options.slug === undefined ? slugFrom(provider, longName(files[0], name)) : undefined,
  };
}

/** Weights keep their name; their folder is dropped only for GGUF, whose driver wants one file. */
function fileEntry({ rfilename, size, lfs }: HubFile) {
  const as = rfilename.endsWith('.gguf') ? (rfilename.split('/').at(-1) ?? rfilename) : rfilename;
  return withoutUndefined({ as, path: rfilename, sha256: lfs?.sha256, bytes: lfs?.size ?? size });
}

/** A GGUF file is named after the model and its quantization. */
const longName = (file: HubFile | undefined, name: string): string =>
  file?.rfilename.endsWith('.gguf') === true ? ggufName(file.rfilename) : `${name}-onnx`;

/** Parts of vision models that llama.cpp loads beside the model. */
const isGguf = (name: string): boolean => name.endsWith('.gguf') && !/(^|\/)mmproj/i.test(name);

interface Choice {
  files: HubFile[];
  /** It has an encoder for them. */
  images?: boolean;
  preview: WeightsPreview;
}

async function chooseGguf(
  files: readonly HubFile[],
  { file, repo }: HubLocation,
  { drivers, read }: { drivers: readonly Driver[]; read(file: string): Promise<Buffer> },
): Promise<Choice> {
  const names = files.map(({ rfilename }) => rfilename);
  // A model in parts counts once, by its first part, and after those in one file.
  const models = names
    .map((name) => ggufFiles(name, drivers))
    .filter(([first], at) => first === names[at])
    .toSorted((left, right) => Number(left.length > 1) - Number(right.length > 1));
  const wanted = file?.toLowerCase() ?? 'q4_k_m';
  const found =
    models.find((parts) => parts.some((name) => name.toLowerCase() === wanted)) ??
    models.find(([first = '']) => `${ggufName(first)}.gguf`.toLowerCase().endsWith(`${wanted}.gguf`)) ??
    (file === undefined && models.length === 1 ? models[0] : undefined);
  if (found === undefined) {
    const what = file === undefined ? 'more than one GGUF model; add one of them after a colon' : `no file '${file}'`;
    throw new AddError(`${repo} has ${what}. It has: ${names.join(', ')}`);
  }
  const missing = found.filter((name) => !names.includes(name));
  if (missing.length > 0) throw new AddError(`${repo} does not have all parts of the model: ${missing.join(', ')}`);
  const [first = ''] = found;
  return {
    files: found.flatMap((name) => files.find(({ rfilename }) => rfilename === name) ?? []),
    preview: { beginning: await read(first) },
  };
}

/** Small files beside the weights, which some tasks need. */
const BESIDE = ['config.json', 'generation_config.json', 'tokenizer_config.json', 'preprocessor_config.json'];

async function chooseOnnx(
  files: readonly HubFile[],
  { repo, drivers, read }: { repo: string; drivers: readonly Driver[]; read(file: string): Promise<Fields> },
): Promise<Choice> {
  const names = files.map(({ rfilename }) => rfilename);
  const engine = drivers.find(({ name }) => name === 'onnx')?.local?.recognise?.(names);
  if (engine === undefined || !names.includes('tokenizer.json')) {
    throw new AddError(
      `${repo} has neither GGUF files nor an ONNX model with tokenizer.json. Serve it with vLLM and add that address`,
    );
  }
  const weights = [engine.model, engine.imageModel, engine.decoder].filter((name) => typeof name === 'string');
  const wanted = [...weights, ...weights.map((name) => `${name}_data`), 'tokenizer.json', ...BESIDE];
  return {
    files: files.filter(({ rfilename }) => wanted.includes(rfilename)),
    images: engine.imageModel !== undefined,
    preview: { config: names.includes('config.json') ? await read('config.json') : undefined },
  };
}

function modalityOf({ pipeline_tag }: HubModel, repo: string): Modality {
  const guess = modalityFromName(repo);
  return guess === 'chat' ? (PIPELINES[pipeline_tag ?? ''] ?? guess) : guess;
}
