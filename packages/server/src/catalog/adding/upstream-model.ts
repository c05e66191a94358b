import type { ListedModel, ModelFacts } from '../../upstreams/dialects/dialect.ts';
import { dialectOf, UPSTREAM_KINDS, type UpstreamKind } from '../../upstreams/dialects/dialects.ts';
import { createConnectionPool } from '../../upstreams/transport/connection-pool.ts';
import { exchange } from '../../upstreams/transport/exchange.ts';
import { LinkLocalError } from '../../upstreams/transport/link-local.ts';
import { type AddOptions, type ModelDraft, modalityFromName, withoutUndefined } from './draft.ts';
import { AddError, slugFrom } from './reference.ts';

export interface UpstreamConnection {
  apiKey?: string | undefined;
  signal?: AbortSignal | undefined;
}

type Json = Record<string, unknown>;
const TIMEOUT_MS = 10_000;
/** The catalogs of the largest services have one megabyte. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null;

/** Follows no redirects, reads answers up to a limit, and connects to no link-local address. */
function client(url: string, { apiKey, signal }: UpstreamConnection) {
  const base = new URL(url);
  const connections = createConnectionPool({ origin: base, connectTimeoutMs: TIMEOUT_MS });
  const headers = {
    'content-type': 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  async function call(address: string, body?: object): Promise<{ status: number; json: unknown }> {
    const ended = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]);
    ended.throwIfAborted();
    const { pathname, search } = new URL(address);
    const running = exchange(
      connections,
      {
        ...(body === undefined ? { method: 'GET' } : { method: 'POST', body: JSON.stringify(body) }),
        path: pathname + search,
        headers,
      },
      {
        maxBytes: () => MAX_ANSWER_BYTES,
        tooLong: (limit) => new Error(`its answer is longer than ${limit} bytes`),
      },
    );
    const onAbort = () => running.abort(ended.reason);
    ended.addEventListener('abort', onAbort);
    const { status, text } = await running.answer.finally(() => ended.removeEventListener('abort', onAbort));
    try {
      return { status, json: JSON.parse(text) };
    } catch {
      return { status, json: undefined };
    }
  }
  const root = url.replace(/\/v1$/, '');
  return {
    call,
    close: connections.close,
    /** The answer of an endpoint that only some servers have. */
    async probe(path: string, body?: object): Promise<Json | undefined> {
      const { status, json } = await call(`${root}${path}`, body).catch((error: unknown) => {
        if (error instanceof LinkLocalError) throw refusal(url, error);
        return { status: 0, json: undefined };
      });
      return status === 200 && isJson(json) ? json : undefined;
    },
  };
}

type Client = ReturnType<typeof client>;

/** Does not say whether something listens there that is no such server: it may be inside a network that the caller cannot reach. */
function refusal(url: string, error: Error): AddError {
  if (error instanceof LinkLocalError) {
    const hint = "an entry of 'upstreams' in baobab.yaml may have it, with allow_link_local: true";
    return new AddError(`${url} is a link-local address or a metadata service; ${hint}`);
  }
  return new AddError(`${url} cannot be reached, or its /models lists no models`, { cause: error });
}

async function listModels(url: string, { call }: Client): Promise<ListedModel[]> {
  const answer = await call(`${url}/models`).catch((error: Error) => {
    throw refusal(url, error);
  });
  if (answer.status === 401 || answer.status === 403) {
    throw new AddError(`${url} requires a key; put it into a file and add --upstream-key-file FILE`);
  }
  if (answer.status === 503) throw new AddError(`${url} is not ready (503): wait until it has loaded its model`);
  const { data } = isJson(answer.json) ? answer.json : {};
  const models = Array.isArray(data) ? data.filter((each): each is ListedModel => typeof each?.id === 'string') : [];
  if (models.length === 0) throw refusal(url, new Error(`it answers ${answer.status}, without models`));
  return models;
}

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

/** Finds out which server it is by what only its kind has. */
async function recognise(
  { probe }: Client,
  listed: () => Promise<ListedModel>,
): Promise<ModelFacts & { kind: UpstreamKind }> {
  for (const kind of UPSTREAM_KINDS) {
    const facts = await dialectOf(kind).recognise?.(probe, listed);
    if (facts !== undefined) return { kind, ...facts };
  }
  return { kind: 'openai' };
}

/** A model that another server runs. */
export async function draftUpstreamModel(
  url: string,
  options: AddOptions,
  connection: UpstreamConnection,
): Promise<ModelDraft> {
  const upstream = client(url, connection);
  try {
    return await describe(url, options, upstream);
  } finally {
    upstream.close();
  }
}

async function describe(url: string, options: AddOptions, upstream: Client): Promise<ModelDraft> {
  let chosen: Promise<ListedModel> | undefined;
  const listed = () => {
    chosen ??= listModels(url, upstream).then((models) => choose(models, url, options.name));
    return chosen;
  };
  const { kind, ...facts } = await recognise(upstream, listed);
  const name = facts.name ?? (await listed()).id;
  const named = options.modality ?? facts.modality ?? modalityFromName(name);
  const mayEmbed = options.modality === undefined && facts.mayEmbed === true && named === 'chat';
  const found = named === 'embedding' || mayEmbed ? await vectorLength(url, name, upstream) : undefined;
  const modality = mayEmbed && found !== undefined ? 'embedding' : named;
  const slug = options.slug ?? slugOf(name);
  const dimensions = modality === 'embedding' ? (options.dimensions ?? found ?? facts.dimensions) : undefined;
  // Ollama lists the width of every model as the length of its vectors.
  if (modality === 'embedding' && found === undefined && facts.modality === 'chat') {
    throw new AddError(`${url} runs '${name}' as a chat model and makes no embeddings with it; add one made for them`);
  }
  if (modality === 'embedding' && dimensions === undefined) {
    throw new AddError(`${url} does not say how long its vectors are; add --dimensions 768 with the right number`);
  }
  return {
    entry: withoutUndefined({
      slug,
      modality,
      // Every client can read it, so it has neither hosts nor paths.
      description: `${shownName(name)}, served by ${kind === 'openai' ? 'an upstream' : kind}`,
      context_length: options.contextLength ?? facts.contextLength,
      dimensions,
      capabilities: facts.vision === true ? { vision: true } : undefined,
    }),
    upstream: withoutUndefined({
      model: slug,
      url,
      kind,
      name,
      api_key_file: options.apiKeyFile,
    }),
    notes: options.contextLength === undefined ? facts.notes : [],
  };
}
