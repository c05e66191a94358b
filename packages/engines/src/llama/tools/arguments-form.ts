import {
  CALL_ID,
  type CallSyntax,
  firstUnit,
  type JsonArguments,
  NAME_CHARACTERS,
  sharedUnits,
  type TaggedArguments,
} from './call-syntax.ts';
import type { Found } from './probe-shapes.ts';

interface Around {
  /** Between a name and its arguments. */
  middle: string;
  /** After the arguments. */
  close: string;
  controlTexts: readonly string[];
}

interface Form<Arguments> extends Pick<CallSyntax, 'close'> {
  arguments: Arguments;
}

export function jsonForm({ middle, close, controlTexts }: Around): Form<JsonArguments> | undefined {
  const nameEnd = firstUnit(middle, controlTexts);
  if (nameEnd === '' || nameEnd === CALL_ID) return undefined;
  return { arguments: { kind: 'json', nameEnd, middle: middle.slice(nameEnd.length) }, close };
}

/** Splits the text around values. `close` begins like the text between two arguments, up to the next key. */
export function taggedForm(around: Around & NonNullable<Found['tags']>): Form<TaggedArguments> | undefined {
  const { middle, close, controlTexts, beforeValue, between } = around;
  const at = sharedUnits(between, close, controlTexts);
  const beforeKey = between.slice(at);
  const [, valueMargin, valueEnd, afterValue] = /^(\s*)(<[^<>]+>)(.*)$/s.exec(between.slice(0, at)) ?? [];
  const [end] = /^<[^<>]+>/.exec(close.slice(at)) ?? [];
  if (valueMargin === undefined || valueEnd === undefined || afterValue === undefined || end === undefined)
    return undefined;
  if (!beforeKey.startsWith('<') || !middle.endsWith(beforeKey)) return undefined;
  const lead = middle.slice(0, -beforeKey.length);
  if ([lead, beforeValue].some((text) => NAME_CHARACTERS.test(text.charAt(0)))) return undefined;
  if ([middle, beforeValue, between, end].some((text) => text.includes(CALL_ID))) return undefined;
  return {
    arguments: { kind: 'tagged', lead, beforeKey, beforeValue, valueMargin, valueEnd, afterValue, end },
    close: close.slice(at + end.length),
  };
}
