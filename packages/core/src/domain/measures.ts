/**
 * What requests are measured by, and what usage is grouped by. Ledger, sums, reports, prices, exports, metrics, command line and console
 * follow from these two tables. A new line also needs a column (`docs/extending.md`), and its text in the console.
 */
interface Measure {
  /** Its column in the database, and its field in answers, exports and metrics. */
  wireName: string;
  unit: 'tokens' | 'seconds';
  /** In headings of the command line, addresses of the console and the names of its texts. */
  short: string;
  /** In the descriptions of its metric. */
  label: string;
  /** In the catalog and in answers, and for how many units. */
  price: { name: string; wireName: string; units: number };
  /** Measures that it counts too, and that are charged at their own price instead. */
  includes: readonly string[];
}

export const MEASURES = {
  promptTokens: {
    wireName: 'prompt_tokens',
    unit: 'tokens',
    short: 'prompt',
    label: 'Prompt tokens in the ledger, including cached ones',
    price: { name: 'promptPerMillion', wireName: 'prompt_per_million', units: 1_000_000 },
    includes: ['cacheReadTokens'],
  },
  completionTokens: {
    wireName: 'completion_tokens',
    unit: 'tokens',
    short: 'completion',
    label: 'Completion tokens in the ledger',
    price: { name: 'completionPerMillion', wireName: 'completion_per_million', units: 1_000_000 },
    includes: [],
  },
  cacheReadTokens: {
    wireName: 'cache_read_tokens',
    unit: 'tokens',
    short: 'cached',
    label: 'Prompt tokens read from a cache',
    price: { name: 'cacheReadPerMillion', wireName: 'cache_read_per_million', units: 1_000_000 },
    includes: [],
  },
  /** Whole seconds, rounded up. */
  audioSeconds: {
    wireName: 'audio_seconds',
    unit: 'seconds',
    short: 'audio',
    label: 'Seconds of audio in the ledger',
    price: { name: 'audioPerMinute', wireName: 'audio_per_minute', units: 60 },
    includes: [],
  },
} as const satisfies Record<string, Measure>;

export type MeasureName = keyof typeof MEASURES;
export type MeasureField = (typeof MEASURES)[MeasureName]['wireName'];
export type PriceField = (typeof MEASURES)[MeasureName]['price']['wireName'];
export type PriceName = (typeof MEASURES)[MeasureName]['price']['name'];

/** What one request used, or many together. */
export type Consumption = Record<MeasureName, number>;

export const MEASURE_NAMES = Object.keys(MEASURES) as readonly MeasureName[];
export const MEASURE_FIELDS: readonly MeasureField[] = MEASURE_NAMES.map((name) => MEASURES[name].wireName);

/** One value for each measure. */
export const forEachMeasure = <Value>(value: (name: MeasureName) => Value) =>
  Object.fromEntries(MEASURE_NAMES.map((name) => [name, value(name)])) as Record<MeasureName, Value>;

/** One value for each price. */
export const forEachPrice = <Value>(value: (name: PriceName) => Value) =>
  Object.fromEntries(
    MEASURE_NAMES.map((name) => [MEASURES[name].price.name, value(MEASURES[name].price.name)]),
  ) as Record<PriceName, Value>;

/**
 * Counts that are not given are zero. Runs for each request: written out, because a loop over the names takes 40 times as long. The
 * compiler asks for every measure of the table.
 */
export const consumptionOf = ({
  promptTokens = 0,
  completionTokens = 0,
  cacheReadTokens = 0,
  audioSeconds = 0,
}: Partial<Consumption>): Consumption => ({ promptTokens, completionTokens, cacheReadTokens, audioSeconds });

/** At most as much of everything. Written out for the same reason. */
export const atMost = (used: Consumption, most: Consumption): Consumption => ({
  promptTokens: Math.min(used.promptTokens, most.promptTokens),
  completionTokens: Math.min(used.completionTokens, most.completionTokens),
  cacheReadTokens: Math.min(used.cacheReadTokens, used.promptTokens, most.promptTokens),
  audioSeconds: Math.min(used.audioSeconds, most.audioSeconds),
});

export const NOTHING_USED: Consumption = consumptionOf({});

export function addUsed(sums: Consumption, added: Consumption): void {
  for (const name of MEASURE_NAMES) sums[name] += added[name];
}

/** Lists have hundreds of them: written out for the same reason, and so is `fromFields`. */
export const toFields = (used: Consumption): Record<MeasureField, number> => ({
  prompt_tokens: used.promptTokens,
  completion_tokens: used.completionTokens,
  cache_read_tokens: used.cacheReadTokens,
  audio_seconds: used.audioSeconds,
});

export const pricesToFields = (prices: Record<PriceName, number | null>) =>
  Object.fromEntries(
    MEASURE_NAMES.map((name) => [MEASURES[name].price.wireName, prices[MEASURES[name].price.name]]),
  ) as Record<PriceField, number | null>;

/** Also reads sums, which databases return as text. */
export const fromFields = (row: Record<MeasureField, number | string>): Consumption => ({
  promptTokens: Number(row.prompt_tokens),
  completionTokens: Number(row.completion_tokens),
  cacheReadTokens: Number(row.cache_read_tokens),
  audioSeconds: Number(row.audio_seconds),
});

interface Dimension {
  /** Its column in `ledger_series`. */
  column: string;
  /** Its property of a row of the ledger, and of a bucket of a report. */
  id: string;
  /** The property of a bucket that holds its name; null: the id is the name. */
  label: string | null;
}

/** In the order in which reports sort and name them. */
export const DIMENSIONS = {
  model: { column: 'model', id: 'model', label: null },
  region: { column: 'region', id: 'region', label: null },
  key: { column: 'key_id', id: 'keyId', label: 'keyName' },
  account: { column: 'account_id', id: 'accountId', label: 'accountName' },
} as const satisfies Record<string, Dimension>;

export type DimensionName = keyof typeof DIMENSIONS;
type Dimensions = (typeof DIMENSIONS)[DimensionName];
export type DimensionColumn = Dimensions['column'];

/** Which series a request belongs to. */
export type SeriesNames = Record<Dimensions['id'], string>;
export type DimensionLabel = NonNullable<Dimensions['label']>;

export const DIMENSION_NAMES = Object.keys(DIMENSIONS) as readonly DimensionName[];
