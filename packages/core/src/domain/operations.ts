import type { Modality } from './model.ts';
import { INFERENCE_SCOPES, type Scope } from './scopes.ts';

/** Every operation of the API, with the scope that a key needs for it. Null: every key may. */
export const OPERATIONS = {
  'chat.completions.create': 'chat',
  'completions.create': 'chat',
  'messages.create': 'chat',
  'messages.countTokens': 'chat',
  'responses.create': 'chat',
  'responses.countTokens': 'chat',
  'responses.compact': 'chat',
  'responses.get': 'chat',
  'responses.delete': 'chat',
  'responses.cancel': 'chat',
  'responses.inputItems.list': 'chat',
  'conversations.create': 'chat',
  'conversations.get': 'chat',
  'conversations.update': 'chat',
  'conversations.delete': 'chat',
  'conversations.items.list': 'chat',
  'conversations.items.create': 'chat',
  'conversations.items.get': 'chat',
  'conversations.items.delete': 'chat',
  'embeddings.create': 'embeddings',
  'rerank.create': 'rerank',
  'transcriptions.create': 'audio',
  'translations.create': 'audio',
  'tokens.encode': null,
  'tokens.decode': null,

  'files.create': 'files',
  'files.list': 'files',
  'files.get': 'files',
  'files.content': 'files',
  'files.delete': 'files',

  'batches.create': 'batches',
  'batches.list': 'batches',
  'batches.get': 'batches',
  'batches.cancel': 'batches',
  'messages.batches.create': 'batches',
  'messages.batches.list': 'batches',
  'messages.batches.get': 'batches',
  'messages.batches.cancel': 'batches',
  'messages.batches.delete': 'batches',
  'messages.batches.results': 'batches',

  'models.list': 'models',
  'models.get': 'models',

  'reports.usage': 'usage',
  'reports.performance': 'usage',
  'requests.list': 'usage',
  'requests.get': 'usage',
  'events.stream': 'usage',

  'keys.own': null,
  'keys.list': 'keys',
  'keys.create': 'keys',
  'keys.update': 'keys',
  'keys.revoke': 'keys',
  'keys.rotate': 'keys',
  'audit.list': 'keys',
  'sessions.get': null,
  'sessions.end': null,

  'admin.accounts.list': 'admin',
  'admin.accounts.create': 'admin',
  'admin.accounts.update': 'admin',
  'admin.accounts.suspend': 'admin',
  'admin.accounts.resume': 'admin',
  'admin.accounts.delete': 'admin',
  'admin.keys.list': 'admin',
  'admin.keys.create': 'admin',
  'admin.keys.update': 'admin',
  'admin.keys.revoke': 'admin',
  'admin.keys.rotate': 'admin',
  'admin.audit.list': 'admin',
  'admin.models.add': 'admin',
  'admin.models.remove': 'admin',
  'admin.models.deprecate': 'admin',
  'admin.models.retire': 'admin',
  'admin.engines.list': 'admin',
  'admin.engines.pull': 'admin',
  'admin.engines.load': 'admin',
  'admin.engines.unload': 'admin',
  'admin.system.get': 'admin',
  'admin.servers.list': 'admin',
} as const satisfies Record<string, Scope | null>;
export type Operation = keyof typeof OPERATIONS;

/** Runs a model, or continues what a model has answered. */
export const isInference = (operation: Operation | undefined): boolean =>
  operation !== undefined && INFERENCE_SCOPES.some((scope) => scope === OPERATIONS[operation]);

/** What a model is called for, by its modality. */
export const MODEL_OPERATIONS = {
  chat: 'chat.completions.create',
  embedding: 'embeddings.create',
  rerank: 'rerank.create',
  audio: 'transcriptions.create',
} as const satisfies Record<Modality, Operation>;

/** What the lines of a batch may call, by the endpoint that a batch names. */
export const BATCH_OPERATIONS = {
  '/v1/chat/completions': 'chat.completions.create',
  '/v1/responses': 'responses.create',
  '/v1/messages': 'messages.create',
  '/v1/embeddings': 'embeddings.create',
  '/v1/rerank': 'rerank.create',
} as const satisfies Record<string, Operation>;

/** Where models run: the lines of batches and requests of their own. */
export const MODEL_ENDPOINTS = {
  ...BATCH_OPERATIONS,
  '/v1/completions': 'completions.create',
  '/v1/responses/compact': 'responses.compact',
  '/v2/rerank': 'rerank.create',
  '/v1/audio/transcriptions': 'transcriptions.create',
  '/v1/audio/translations': 'translations.create',
} as const satisfies Record<string, Operation>;

/** Scopes of what an account stores and runs. */
const ACCOUNT_SCOPES: readonly (Scope | null)[] = [...INFERENCE_SCOPES, 'files', 'batches', 'models'];

/** Operators may do it for another account: with its files and limits, and on its bill. */
export const canBeForAnother = (operation: Operation): boolean => ACCOUNT_SCOPES.includes(OPERATIONS[operation]);

/** A key, or the session of one. */
export interface Holder {
  scopes: readonly string[];
}

/** Sees and changes what belongs to any account. Everyone else sees only the account of the key. */
export const isOperator = ({ scopes }: Holder): boolean => scopes.includes('admin');

/** The scope that the operation needs and the key lacks. Operators manage the keys of any account, so also those of their own. */
export function missingScope(holder: Holder, operation: Operation): Scope | undefined {
  const scope = OPERATIONS[operation];
  if (scope === null || holder.scopes.includes(scope)) return undefined;
  return scope === 'keys' && isOperator(holder) ? undefined : scope;
}

export const may = (holder: Holder, operation: Operation): boolean => missingScope(holder, operation) === undefined;
