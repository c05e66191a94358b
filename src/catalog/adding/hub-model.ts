import type { Modality } from '../../domain/model.ts';
import { type AddOptions, type ModelDraft, modalityFromName, ONNX_MODELS, withoutUndefined } from './draft.ts';
import { AddError, type ModelLocation, slugFrom } from './reference.ts';

export interface HubConnection {
  endpoint: string;
  token?: string | undefined;
  fetch: typeof fetch;
  signal?: AbortSignal | undefined;
}

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

async function ask(hub: HubConnection, path: string): Promise<unknown> {
  const address = `${hub.endpoint.replace(/\/$/, '')}${path}`;
  const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(hub.signal ? [hub.signal] : [])]);
  let answer: Response;
  try {
    const headers = hub.token === undefined ? {} : { authorization: `Bearer ${hub.token}` };
    answer = await hub.fetch(address, { headers, signal });
  } catch (error) {
    const { cause, message } = error as Error;
    throw new AddError(`${address} cannot be reached: ${(cause as Error | undefined)?.message ?? message}`);
  }
  if (answer.ok) return answer.json();
  await answer.body?.cancel();
  const hint = [401, 403].includes(answer.status) ? '; it may not exist, or need a token in models.hf_token' : '';
  throw new AddError(`${address} answered ${answer.status}${hint}`);
}

/** A model of a Hugging Face hub, with the revision pinned to the commit that is current now. */
export async function draftHubModel(
  location: Extract<ModelLocation, { kind: 'hub' }>,
  options: AddOptions,
  hub: HubConnection,
): Promise<ModelDraft> {
  const { repo } = location;
  const path = `/api/models/${repo}/revision/${encodeURIComponent(location.revision)}?blobs=true`;
  const model = (await ask(hub, path)) as HubModel;
  const { sha, siblings = [] } = model;
  if (sha === undefined) throw new AddError(`the hub gives no commit for ${repo}`);
  const ggufs = siblings.filter(({ rfilename }) => rfilename.endsWith('.gguf'));
  const files = ggufs.length > 0 ? [chooseGguf(ggufs, location)] : chooseOnnx(siblings, repo);
  const isGguf = ggufs.length > 0;
  const config = isGguf ? {} : ((await ask(hub, `/${repo}/resolve/${sha}/config.json`)) as Record<string, unknown>);
  const modality = options.modality ?? modalityOf(model, repo, config);
  const [provider = '', name = ''] = repo.split('/');
  const dimensions = options.dimensions ?? (modality === 'embedding' ? integer(config.hidden_size) : undefined);
  if (modality === 'embedding' && dimensions === undefined) {
    throw new AddError('the hub does not say how long its vectors are; add --dimensions 768 with the right number');
  }
  const languages = [model.cardData?.language ?? []].flat();
  return {
    entry: withoutUndefined({
      slug: options.slug ?? slugFrom(provider, name.replace(/-gguf$/i, '')),
      modality,
      description: `${repo}, added with models add`,
      license: model.cardData?.license,
      languages: languages.length > 0 ? languages : undefined,
      context_length: options.contextLength ?? model.gguf?.context_length ?? integer(config.max_position_embeddings),
      dimensions,
      source: { kind: 'hf', repo, revision: sha, files: files.map(fileEntry) },
    }),
  };
}

const integer = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

/** Weights keep their name; their folder is dropped only for GGUF, whose driver wants one file. */
function fileEntry({ rfilename, size, lfs }: HubFile) {
  const as = rfilename.endsWith('.gguf') ? (rfilename.split('/').at(-1) ?? rfilename) : rfilename;
  return withoutUndefined({ as, path: rfilename, sha256: lfs?.sha256, bytes: lfs?.size ?? size });
}

function chooseGguf(files: readonly HubFile[], { file, repo }: Extract<ModelLocation, { kind: 'hub' }>): HubFile {
  const names = files.map(({ rfilename }) => rfilename);
  const whole = files.filter(({ rfilename }) => !/-\d{5}-of-\d{5}\.gguf$/.test(rfilename));
  const wanted = file?.toLowerCase() ?? 'q4_k_m';
  const found =
    whole.find(({ rfilename }) => rfilename.toLowerCase() === wanted) ??
    whole.find(({ rfilename }) => rfilename.toLowerCase().endsWith(`${wanted}.gguf`)) ??
    (file === undefined && whole.length === 1 ? whole[0] : undefined);
  if (found !== undefined) return found;
  const what =
    file === undefined ? 'more than one GGUF file; add one of them after a colon' : `no whole file '${file}'`;
  throw new AddError(`${repo} has ${what}. It has: ${names.join(', ')}`);
}

function chooseOnnx(files: readonly HubFile[], repo: string): HubFile[] {
  const find = (name: string) => files.find(({ rfilename }) => rfilename === name);
  const model = ONNX_MODELS.map(find).find((file) => file !== undefined);
  const tokenizer = find('tokenizer.json');
  if (model === undefined || tokenizer === undefined) {
    throw new AddError(
      `${repo} has neither GGUF files nor an ONNX model with tokenizer.json. Serve it with vLLM and add that address`,
    );
  }
  const data = find(`${model.rfilename}_data`);
  return [model, tokenizer, ...(data === undefined ? [] : [data])];
}

function modalityOf({ pipeline_tag, gguf }: HubModel, repo: string, config: Record<string, unknown>): Modality {
  const architectures = Array.isArray(config.architectures) ? config.architectures.map(String) : [];
  if (architectures.some((each) => each.endsWith('ForSequenceClassification'))) return 'rerank';
  const guess = modalityFromName(repo);
  if (guess !== 'chat') return guess;
  if (gguf?.architecture?.includes('bert')) return 'embedding';
  return PIPELINES[pipeline_tag ?? ''] ?? guess;
}
