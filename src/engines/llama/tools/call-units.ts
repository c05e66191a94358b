/** The first unit of a fixed text: a control token, a tag, or else a character. What models write as one token is not cut. */
export function firstUnit(text: string, controlTexts: readonly string[]): string {
  const control = controlTexts.find((each) => text.startsWith(each));
  return control ?? /^<[^<>]*>?/.exec(text)?.[0] ?? [...text.slice(0, 2)][0] ?? '';
}

/** Length of the text that both begin with, in whole units. */
export function sharedUnits(a: string, b: string, controlTexts: readonly string[]): number {
  let at = 0;
  while (at < a.length) {
    const unit = firstUnit(a.slice(at), controlTexts);
    if (unit !== firstUnit(b.slice(at), controlTexts)) break;
    at += unit.length;
  }
  return at;
}

/** Names and keys as templates print them without quotes. The texts around them begin with other characters. */
export const NAME_CHARACTERS = /^[\p{L}\p{N}_.-]+$/u;
