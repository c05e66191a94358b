import type { SqlDatabase } from './database.ts';

/** What ledger rows and requests are grouped by. They hold only the number of their series. */
export interface Series {
  accountId: string;
  keyId: string;
  model: string;
  region: string;
}

/** Series ids kept in memory. A forgotten one costs a round trip. */
const KNOWN_SERIES = 10_000;

type Level<Value> = Map<string, Value>;

function inner<Value>(map: Level<Level<Value>>, name: string): Level<Value> {
  const found = map.get(name);
  if (found !== undefined) return found;
  const added: Level<Value> = new Map();
  map.set(name, added);
  return added;
}

/** By each name in turn: they are strings that V8 has hashed before, and one name made of four would be hashed for every row. */
class KnownSeries {
  readonly #ids: Level<Level<Level<Level<number>>>> = new Map();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get({ accountId, keyId, model, region }: Series): number | undefined {
    return this.#ids.get(accountId)?.get(keyId)?.get(model)?.get(region);
  }

  set({ accountId, keyId, model, region }: Series, id: number): void {
    this.#size += 1;
    inner(inner(inner(this.#ids, accountId), keyId), model).set(region, id);
  }
}

export interface SeriesIds {
  /** Undefined: has to be looked up. */
  known(series: Series): number | undefined;
  /** Finds or creates the ids, and returns a function that knows those of all these series. */
  find(all: readonly Series[]): Promise<(series: Series) => number>;
}

/** An id never changes and is used only after it is durable. */
export function createSeriesIds({ read, write }: SqlDatabase): SeriesIds {
  let known = new KnownSeries();

  async function learn(series: Series): Promise<number> {
    const { accountId, keyId, model, region } = series;
    const [, found] = await write(
      [
        read
          .insertInto('ledger_series')
          .values({ account_id: accountId, key_id: keyId, model, region })
          .onConflict((conflict) => conflict.columns(['account_id', 'key_id', 'model', 'region']).doNothing()),
        read
          .selectFrom('ledger_series')
          .select('id')
          .where('account_id', '=', accountId)
          .where('key_id', '=', keyId)
          .where('model', '=', model)
          .where('region', '=', region),
      ],
      // A series never changes.
      { byRowLocks: true },
    );
    const [row] = found.rows;
    if (row === undefined) throw new Error('the ledger series that was just written is missing');
    return row.id;
  }

  return {
    known: (series) => known.get(series),
    async find(all) {
      if (known.size > KNOWN_SERIES) known = new KnownSeries();
      const ids = known;
      for (const series of all) {
        if (ids.get(series) === undefined) ids.set(series, await learn(series));
      }
      return (series) => ids.get(series) as number;
    },
  };
}
