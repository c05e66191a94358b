import type { RequestGrammars } from './request-grammars.ts';

/** Grammars by the request that they were compiled from. The ones unused for longest are dropped. */
export interface ResultCache {
  /** Removes the entry: `add` makes it the newest. */
  take(key: string): RequestGrammars | undefined;
  add(key: string, grammars: RequestGrammars): void;
}

export function createResultCache(maxCharacters: number): ResultCache {
  const entries = new Map<string, { grammars: RequestGrammars; characters: number }>();
  let characters = 0;

  const take = (key: string): RequestGrammars | undefined => {
    const entry = entries.get(key);
    if (entry === undefined) return undefined;
    entries.delete(key);
    characters -= entry.characters;
    return entry.grammars;
  };

  return {
    take,
    add(key, grammars) {
      take(key);
      const entry = { grammars, characters: key.length + charactersOf(grammars) };
      entries.set(key, entry);
      characters += entry.characters;
      for (const oldest of entries.keys()) {
        if (characters <= maxCharacters) break;
        take(oldest);
      }
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
