import {
  MEASURE_FIELDS,
  MEASURE_NAMES,
  MEASURES,
  type MeasureField,
  type PriceField,
} from '@baobab/core/domain/measures.ts';
import { type TInteger, type TNull, type TNumber, type TUnion, Type } from 'typebox';

/** The fields of an answer that says what was used. `toFields` fills them. */
export const measureFields = Object.fromEntries(MEASURE_FIELDS.map((field) => [field, Type.Integer()])) as Record<
  MeasureField,
  TInteger
>;

/** What a model costs. `pricesToFields` fills them. */
export const priceFields = Object.fromEntries(
  MEASURE_NAMES.map((name) => [MEASURES[name].price.wireName, Type.Union([Type.Number(), Type.Null()])]),
) as Record<PriceField, TUnion<[TNumber, TNull]>>;
