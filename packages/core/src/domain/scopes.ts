import type { Modality } from './model.ts';

export const INFERENCE_SCOPES = ['chat', 'embeddings', 'rerank', 'audio'] as const;
export const SCOPES = [...INFERENCE_SCOPES, 'files', 'batches', 'models', 'usage', 'prompts', 'keys', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

/** The scope that runs models of a modality. */
export const SCOPE_OF_MODALITY = {
  chat: 'chat',
  embedding: 'embeddings',
  rerank: 'rerank',
  audio: 'audio',
} as const satisfies Record<Modality, Scope>;

/** A key that reads stored prompts, creates other keys or administers the service is made on purpose, and so is one with a scope to come. */
export const DEFAULT_SCOPES: readonly Scope[] = [...INFERENCE_SCOPES, 'files', 'batches', 'models', 'usage'];

/** Names that mean several scopes. */
export const SCOPE_GROUPS = ['inference', 'all'] as const;

/** `inference` means the four inference scopes, `all` every scope. Throws on an unknown name. */
export function parseScopes(names: readonly string[]): Scope[] {
  const found = new Set<Scope>();
  for (const name of names) {
    if (name === 'all') for (const scope of SCOPES) found.add(scope);
    else if (name === 'inference') for (const scope of INFERENCE_SCOPES) found.add(scope);
    else if ((SCOPES as readonly string[]).includes(name)) found.add(name as Scope);
    else throw new RangeError(`unknown scope '${name}'; allowed: ${[...SCOPES, ...SCOPE_GROUPS].join(', ')}`);
  }
  return SCOPES.filter((scope) => found.has(scope));
}
