import type { Modality } from '@baobab/core/domain/model.ts';
import { MODALITIES } from '@baobab/core/domain/model.ts';
import { type AddOptions, type ModelDraft, modalityFromName, withoutUndefined } from './draft.ts';
import { AddError, slugFrom } from './reference.ts';

export interface UpstreamConnection {
  fetch: typeof fetch;
  apiKey?: string | undefined;
  signal?: AbortSignal | undefined;
}

interface ListedModel {
  id: string;
  owned_by?: string;
  /** vLLM. */
  max_model_len?: number;
  /** llama-server. */
  meta?: { n_ctx?: number; n_ctx_train?: number; n_embd?: number };
  architecture?: { input_modalities?: readonly string[] };
  /** Another Baobab. */
  modality?: string;
  capabilities?: { vision?: boolean };
  context_length?: number;
  dimensions?: number | null;
  status?: string;
}

interface Facts {
  kind: 'openai' | 'vllm' | 'tei' | 'llama-server' | 'ollama' | 'baobab';
  modality?: Modality | undefined;
  contextLength?: number | undefined;
  dimensions?: number | undefined;
  vision?: boolean | undefined;
  notes?: readonly string[] | undefined;
}

type Json = Record<string, unknown>;
const TIMEOUT_MS = 10_000;
const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null;

function client(url: string, { fetch: send, apiKey, signal }: UpstreamConnection) {
  const headers = {
    'content-type': 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  async function call(address: string, body?: object): Promise<{ status: number; json: unknown }> {
    const answer = await send(address, {
      headers,
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]),
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    try {
      return { status: answer.status, json: JSON.parse(text) };
    } catch {
      return { status: answer.status, json: undefined };
    }
  }
  const root = url.replace(/\/v1$/, '');
  return {
    call,
    /** The answer of an endpoint that only some servers have. */
    async probe(path: string, body?: object): Promise<Json | undefined> {
      const { status, json } = await call(`${root}${path}`, body).catch(() => ({ status: 0, json: undefined }));
      return status === 200 && isJson(json) ? json : undefined;
    },
  };
}

type Client = ReturnType<typeof client>;

async function listModels(url: string, { call }: Client): Promise<ListedModel[]> {
  let answer: Awaited<ReturnType<Client['call']>>;
  try {
    answer = await call(`${url}/models`);
  } catch (error) {
    const { cause, message } = error as Error;
    throw new AddError(`${url} cannot be reached: ${(cause as Error | undefined)?.message ?? message}`);
  }
  if (answer.status === 401 || answer.status === 403) {
    throw new AddError(`${url} requires a key; put it into a file and add --upstream-key-file FILE`);
  }
  if (answer.status === 503) throw new AddError(`${url} is not ready (503): wait until it has loaded its model`);
  const { data } = isJson(answer.json) ? answer.json : {};
  return Array.isArray(data) ? data.filter((each): each is ListedModel => typeof each?.id === 'string') : [];
}

const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

/** TEI's `model_type` is `{"embedding": {…}}` or `{"reranker": {…}}`. */
function teiFacts(info: Json): Facts {
  const type = isJson(info.model_type) ? Object.keys(info.model_type)[0] : info.model_type;
  const modality = type === 'embedding' ? 'embedding' : 'rerank';
  return { kind: 'tei', modality, contextLength: number(info.max_input_length) };
}

/** Context of Ollama, unless `num_ctx` of the model or OLLAMA_CONTEXT_LENGTH says otherwise. It silently cuts longer prompts. */
const OLLAMA_CONTEXT = 4096;

function ollamaFacts(id: string, shown: Json | undefined, loaded: Json | undefined): Facts {
  const info = isJson(shown?.model_info) ? shown.model_info : {};
  const value = (ending: string) => number(Object.entries(info).find(([name]) => name.endsWith(ending))?.[1]);
  const models: Json[] = Array.isArray(loaded?.models) ? loaded.models : [];
  const running = number(models.find(({ name }) => name === id)?.context_length);
  const configured = number(Number(/^num_ctx\s+(\d+)/m.exec(String(shown?.parameters))?.[1]));
  const most = value('.context_length') ?? OLLAMA_CONTEXT;
  const isAssumed = running === undefined && configured === undefined && most > OLLAMA_CONTEXT;
  const abilities = Array.isArray(shown?.capabilities) ? shown.capabilities : [];
  return {
    kind: 'ollama',
    modality: abilities.includes('embedding') ? 'embedding' : abilities.includes('completion') ? 'chat' : undefined,
    contextLength: Math.min(most, running ?? configured ?? OLLAMA_CONTEXT),
    notes: isAssumed
      ? [
          `Ollama runs it with a context of ${OLLAMA_CONTEXT} tokens by default; if yours is larger, add the model with --context-length`,
        ]
      : [],
    dimensions: value('.embedding_length'),
    vision: abilities.includes('vision'),
  };
}

/** Finds out which server it is by endpoints that only this one has. */
async function factsOf(model: ListedModel, { probe }: Client): Promise<Facts> {
  const modality = MODALITIES.find((each) => each === model.modality);
  if (modality !== undefined) {
    const { context_length: contextLength, dimensions, capabilities } = model;
    const vision = capabilities?.vision;
    return { kind: 'baobab', modality, contextLength, dimensions: dimensions ?? undefined, vision };
  }
  if (model.owned_by === 'vllm' || model.max_model_len !== undefined) {
    return { kind: 'vllm', contextLength: model.max_model_len };
  }
  if ((await probe('/api/version')) !== undefined) {
    return ollamaFacts(model.id, await probe('/api/show', { model: model.id }), await probe('/api/ps'));
  }
  const props = await probe('/props');
  if (model.owned_by === 'llamacpp' || props !== undefined) {
    const settings = isJson(props?.default_generation_settings) ? props.default_generation_settings : {};
    // The context of one request; the model itself may have been made for more.
    const contextLength = number(settings.n_ctx) ?? number(model.meta?.n_ctx) ?? number(model.meta?.n_ctx_train);
    const vision = model.architecture?.input_modalities?.includes('image');
    return { kind: 'llama-server', contextLength, dimensions: model.meta?.n_embd, vision };
  }
  return { kind: 'openai' };
}

/** Servers with one model, which refuse a request for vectors unless they were started for it. */
const SINGLE_MODEL_KINDS: readonly Facts['kind'][] = ['vllm', 'llama-server'];

/** llama-server names a model by the path of its file. */
function shownName(id: string): string {
  const name = id.replace(/\.gguf$/i, '');
  return name !== id || id.startsWith('/') ? (name.split(/[/\\]/).at(-1) ?? name) : id;
}

/** The slug of a name such as `Qwen/Qwen3-4B`, `llama3.2:1b` or `/srv/models/My Model.gguf`. */
function slugOf(id: string): string {
  const name = shownName(id);
  const [provider, ...rest] = name.includes('/') ? name.split('/') : ['local', name];
  return slugFrom(provider ?? 'local', rest.join('-'));
}

async function vectorLength(url: string, name: string, { call }: Client): Promise<number | undefined> {
  const { json } = await call(`${url}/embeddings`, { model: name, input: 'length' }).catch(() => ({ json: undefined }));
  const [first] = isJson(json) && Array.isArray(json.data) ? json.data : [];
  return Array.isArray(first?.embedding) ? first.embedding.length : undefined;
}

function choose(models: readonly ListedModel[], url: string, name: string | undefined): ListedModel {
  if (models.length === 0) throw new AddError(`${url}/models lists no models`);
  const only = models.length === 1 ? models[0] : undefined;
  // Ollama lists the tag `latest`, which its users leave out.
  const byName = (tag = '') => models.find(({ id }) => id === `${name}${tag}`);
  const found = name === undefined ? only : (byName() ?? byName(':latest'));
  if (found !== undefined) return found;
  // Another Baobab lists its whole catalog.
  const served = models.filter(({ status }) => status !== 'unavailable');
  const names = (served.length === 0 ? models : served).map(({ id }) => id).join(', ');
  throw new AddError(
    name === undefined
      ? `${url} serves several models; add --name with one of: ${names}`
      : `${url} has no model '${name}'; it has: ${names}`,
  );
}

/** A model that another server runs. */
export async function draftUpstreamModel(
  url: string,
  options: AddOptions,
  connection: UpstreamConnection,
): Promise<ModelDraft> {
  const upstream = client(url, connection);
  // TEI lists no models in most versions.
  const info = await upstream.probe('/info');
  const isTei = info !== undefined && typeof info.model_id === 'string' && 'model_type' in info;
  const model = isTei ? { id: String(info.model_id) } : choose(await listModels(url, upstream), url, options.name);
  const facts = isTei ? teiFacts(info) : await factsOf(model, upstream);
  const named = options.modality ?? facts.modality ?? modalityFromName(model.id);
  const mayEmbed = options.modality === undefined && SINGLE_MODEL_KINDS.includes(facts.kind) && named === 'chat';
  const found = named === 'embedding' || mayEmbed ? await vectorLength(url, model.id, upstream) : undefined;
  const modality = mayEmbed && found !== undefined ? 'embedding' : named;
  const slug = options.slug ?? slugOf(model.id);
  const dimensions = modality === 'embedding' ? (options.dimensions ?? found ?? facts.dimensions) : undefined;
  // Ollama lists the width of every model as the length of its vectors.
  if (modality === 'embedding' && found === undefined && facts.modality === 'chat') {
    throw new AddError(
      `${url} runs '${model.id}' as a chat model and makes no embeddings with it; add one made for them`,
    );
  }
  if (modality === 'embedding' && dimensions === undefined) {
    throw new AddError(`${url} does not say how long its vectors are; add --dimensions 768 with the right number`);
  }
  return {
    entry: withoutUndefined({
      slug,
      modality,
      // Every client can read it, so it has neither hosts nor paths.
      description: `${shownName(model.id)}, served by ${facts.kind === 'openai' ? 'an upstream' : facts.kind}`,
      context_length: options.contextLength ?? facts.contextLength,
      dimensions,
      capabilities: facts.vision === true ? { vision: true } : undefined,
    }),
    upstream: withoutUndefined({
      model: slug,
      url,
      kind: facts.kind,
      name: model.id,
      api_key_file: options.apiKeyFile,
    }),
    notes: options.contextLength === undefined ? facts.notes : [],
  };
}
