import type { RequestGrammars } from './request-grammars.ts';

/**
 * Grammars by the request that they were compiled from. Each account has its own, so that how long an answer takes says nothing of the
 * schemas of others.
 */
export interface ResultCache {
  /** Removes the entry: `add` makes it the newest. */
  take(accountId: string, key: string): RequestGrammars | undefined;
  add(accountId: string, key: string, grammars: RequestGrammars): void;
}

interface Entry {
  grammars: RequestGrammars;
  characters: number;
}

/** The oldest entry comes first. */
interface Share {
  entries: Map<string, Entry>;
  characters: number;
}

/** What an entry takes beside its texts. */
const OVERHEAD_CHARACTERS = 512;

export function createResultCache(maxCharacters: number): ResultCache {
  const shares = new Map<string, Share>();
  let characters = 0;

  const take = (accountId: string, key: string): RequestGrammars | undefined => {
    const share = shares.get(accountId);
    const entry = share?.entries.get(key);
    if (share === undefined || entry === undefined) return undefined;
    share.entries.delete(key);
    share.characters -= entry.characters;
    characters -= entry.characters;
    if (share.entries.size === 0) shares.delete(accountId);
    return entry.grammars;
  };

  /** Makes room at the expense of the account that takes most of it, so that no account can push out the grammars of all others. */
  const removeOne = (): void => {
    const [accountId, { entries }] = [...shares].reduce((one, other) =>
      other[1].characters > one[1].characters ? other : one,
    );
    for (const oldest of entries.keys()) return void take(accountId, oldest);
  };

  return {
    take,
    add(accountId, key, grammars) {
      take(accountId, key);
      const share = shares.get(accountId) ?? { entries: new Map(), characters: 0 };
      shares.set(accountId, share);
      const entry = { grammars, characters: key.length + charactersOf(grammars) + OVERHEAD_CHARACTERS };
      share.entries.set(key, entry);
      share.characters += entry.characters;
      characters += entry.characters;
      while (characters > maxCharacters) removeOne();
    },
  };
}

function charactersOf({ format = '', calls }: RequestGrammars): number {
  const ofTools = (calls?.tools ?? []).map(({ grammar, tagged }) => {
    const rules = tagged?.rules.map(([name, body]) => name.length + body.length) ?? [];
    return rules.reduce((sum, length) => sum + length, grammar.length);
  });
  return ofTools.reduce((sum, length) => sum + length, format.length);
}
