/** Schemas that a naive compiler or decoder follows for seconds or minutes. Some are accepted, others refused. */
const withPattern = (pattern: string) => ({
  type: 'object',
  properties: { a: { type: 'string', pattern } },
  required: ['a'],
});
/** Chinese characters. With a distance of 2 they do not form a range. */
const characters = (count: number, distance = 1) =>
  Array.from({ length: count }, (_, index) => String.fromCodePoint(0x4e00 + distance * index));
const values = Array.from({ length: 5_000 }, (_, index) => `value ${index}`);

export const BOMBS: readonly object[] = [
  // The cost of a naive check for emptiness doubles with each group.
  withPattern(`^(${'(|)'.repeat(25)}x){2}$`),
  { allOf: [{ enum: values }, { enum: values.toReversed() }] },
  withPattern(`^(${characters(1_000).join('|')})*$`),
  withPattern(`^(${characters(3_000).join('|')})*$`),
  withPattern(`^(${characters(250, 2).join(' |')} )*$`),
  withPattern(`^(${characters(64, 2).join(' |')} )*$`),
  withPattern(`^[${characters(4_000).join('')}]{0,2000}$`),
  withPattern(`^[${characters(4_000, 2).join('')}]$`),
  withPattern(`^[${characters(1_000, 2).join('')}]{0,200}$`),
];
