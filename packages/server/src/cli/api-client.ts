import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { CommandFailed } from './command.ts';
import { localAddress } from './local-address.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** A running server as its clients see it. */
export interface ApiAccess {
  /** Without `/v1`. */
  address: string;
  key: string;
}

/** What a command needs of a model in `GET /v1/models`. Servers that are only like Baobab may leave the rest out. */
export interface ListedModel {
  id: string;
  aliases?: readonly string[];
  modality?: string;
  status?: string;
  context_length?: number;
  max_output_tokens?: number | null;
  capabilities?: { tools?: boolean };
  pricing?: Readonly<Record<string, number | null>>;
}

export const ADDRESS_HELP = [
  '--address URL',
  "address of the server, without /v1 (default: host and port of this server's settings)",
] as const;

export const addressOf = (given: string | undefined, config: ResolvedConfig): string =>
  (given ?? localAddress(config)).replace(/\/+$/, '');

/** The server refused. */
export class ApiCallFailed extends CommandFailed {
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

export interface CallOptions {
  /** Sent as JSON by POST. */
  body?: object;
  signal?: AbortSignal | undefined;
}

/** Fails with the message of the server, or with how to reach one. */
export async function callApi({ address, key }: ApiAccess, path: string, options: CallOptions = {}): Promise<Response> {
  const { body, signal = null } = options;
  let response: Response;
  try {
    response = await fetch(`${address}/v1/${path}`, {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      signal,
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const reason = systemReason(error instanceof Error && error.cause !== undefined ? error.cause : error);
    throw new CommandFailed(
      `no server answers at ${address}: ${reason}. 'baobab serve' starts one, --address names another`,
    );
  }
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as { error?: { message?: string } };
  const message = error?.message ?? `${address} answered ${response.status}; check that it is a Baobab server`;
  throw new ApiCallFailed(message, response.status);
}

/** The variable of clients, by which commands act as one. */
export function accessFrom(env: Environment, address: string): ApiAccess {
  const key = env.BAOBAB_API_KEY;
  if (key) return { address, key };
  throw new CommandFailed("BAOBAB_API_KEY is not set; 'baobab keys create <name>' prints a key for it");
}

/** Those that the key may call, first the one that answers soonest. */
export async function listChatModels(access: ApiAccess): Promise<[ListedModel, ...ListedModel[]]> {
  const { data } = (await (await callApi(access, 'models')).json()) as { data: ListedModel[] };
  const [first, ...others] = data.filter(({ modality }) => modality === 'chat');
  if (first !== undefined) return [first, ...others];
  throw new CommandFailed("this key may call no chat model here; 'baobab models list' shows the models");
}

/** By slug, pin or alias. */
export function modelNamed(models: readonly ListedModel[], name: string): ListedModel | undefined {
  const [slug] = name.split('@');
  const found = models.find(({ id, aliases }) => id === slug || aliases?.includes(name));
  return found && { ...found, id: name };
}
