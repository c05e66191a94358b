import { DIMENSION_NAMES, DIMENSIONS, type DimensionColumn, type SeriesNames } from '@baobab/core/domain/measures.ts';
import type { UsageFilter } from '@baobab/core/ports/usage.ts';
import type { Kysely } from 'kysely';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';

/** Series ids kept in memory. A forgotten one costs a round trip. */
const KNOWN_SERIES = 10_000;

const PARTS = DIMENSION_NAMES.map((name) => DIMENSIONS[name]);
const COLUMNS: readonly DimensionColumn[] = PARTS.map(({ column }) => column);

/** The ids of the series that match a filter. */
export const seriesIn = (db: Kysely<Tables>, filter: UsageFilter) =>
  PARTS.reduce((query, { id, column }) => {
    const value = filter[id];
    return value === undefined ? query : query.where(column, '=', value);
  }, db.selectFrom('ledger_series').select('id'));

interface KnownName {
  next: Map<string, KnownName>;
  /** Id of the series whose last name this is. */
  id: number | undefined;
}

const knownName = (): KnownName => ({ next: new Map(), id: undefined });

/** By each name in turn: they are strings that V8 has hashed before, and one name made of all would be hashed for every row. */
class KnownSeries {
  readonly #first = knownName();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(series: SeriesNames): number | undefined {
    let name: KnownName | undefined = this.#first;
    for (const { id } of PARTS) {
      name = name.next.get(series[id]);
      if (name === undefined) return undefined;
    }
    return name.id;
  }

  set(series: SeriesNames, id: number): void {
    let name = this.#first;
    for (const part of PARTS) {
      const text = series[part.id];
      const next = name.next.get(text) ?? knownName();
      name.next.set(text, next);
      name = next;
    }
    name.id = id;
    this.#size += 1;
  }
}

export interface SeriesIds {
  /** Undefined: has to be looked up. */
  known(series: SeriesNames): number | undefined;
  /** Finds or creates the ids, and returns a function that knows those of all these series. */
  find(all: readonly SeriesNames[]): Promise<(series: SeriesNames) => number>;
}

/** An id never changes and is used only after it is durable. */
export function createSeriesIds({ read, write }: SqlDatabase): SeriesIds {
  let known = new KnownSeries();

  async function learn(series: SeriesNames): Promise<number> {
    const row = Object.fromEntries(PARTS.map(({ id, column }) => [column, series[id]]));
    const [, found] = await write(
      [
        read
          .insertInto('ledger_series')
          .values(row as Record<DimensionColumn, string>)
          .onConflict((conflict) => conflict.columns(COLUMNS).doNothing()),
        seriesIn(read, series),
      ],
      // A series never changes.
      { byRowLocks: true },
    );
    const [first] = found.rows;
    if (first === undefined) throw new Error('the ledger series that was just written is missing');
    return first.id;
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
