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

const seriesName = ({ accountId, keyId, model, region }: Series): string =>
  `${accountId}\n${keyId}\n${model}\n${region}`;

/** Finds or creates the ids of series. An id never changes and is used only after it is durable. */
export function createSeriesIds({ read, write }: SqlDatabase) {
  /** By name. */
  let known = new Map<string, number>();

  async function learn(series: Series): Promise<number> {
    const { accountId, keyId, model, region } = series;
    const [, found] = await write([
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
    ]);
    const [row] = found.rows;
    if (row === undefined) throw new Error('the ledger series that was just written is missing');
    return row.id;
  }

  /** Returns a function that knows the id of each of these series. */
  return async (all: readonly Series[]): Promise<(series: Series) => number> => {
    if (known.size > KNOWN_SERIES) known = new Map();
    const ids = known;
    const unknown = all.filter((series) => !ids.has(seriesName(series)));
    for (const [name, series] of new Map(unknown.map((each) => [seriesName(each), each]))) {
      ids.set(name, await learn(series));
    }
    return (series) => ids.get(seriesName(series)) as number;
  };
}
