import { ApiError } from '@baobab/core/errors/api-error.ts';
import { describe, expect, it } from 'vitest';
import { parseSlices } from './json-slices.ts';
import { isLarge } from './large-parts.ts';
import { parseJson } from './parse-json.ts';

function randomNumbers(seed: number) {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Parsed {
  value: unknown;
  pauses: number;
}

/** Parses as the body reader does, with chunks of any size. */
function parse(bytes: Buffer, sliceBytes?: number, chunkBytes: () => number = () => 65_536): Parsed {
  const steps = parseSlices(sliceBytes);
  let at = 0;
  let pauses = 0;
  for (let step = steps.next(); ; ) {
    if (step.done) return { value: step.value, pauses };
    if (step.value === 'pause') {
      pauses += 1;
      step = steps.next();
      continue;
    }
    const chunk = bytes.subarray(at, at + chunkBytes());
    at += chunk.length;
    step = steps.next(chunk.length === 0 ? undefined : [chunk]);
  }
}

const refusal = (text: string, sliceBytes?: number): string => {
  try {
    parse(Buffer.from(text), sliceBytes);
  } catch (error) {
    expect((error as ApiError).code).toBe('invalid_json');
    return (error as ApiError).message;
  }
  return 'accepted';
};

const STRINGS = [
  '""',
  '"a"',
  '"longer text, and more"',
  '"\\n\\"q\\\\"',
  '"\\u00e9\\ud83d\\ude00"',
  '"é漢字😀"',
  '"\\\\\\""',
  '"],[{}:,"',
];
/** V8 may read these as a backslash, after other tests have had an object with that name: see parse-json.ts. */
const MISREAD_NAME = /"\\(?:[^u]|u00[01].|u0022|u005c|ud[89a-f]..)"\s*:/i;
const NAMES = ['"a"', '"b"', '"__proto__"', '""', '"éa"', '"0"', '"longer name"', '"\\u0061"'];
const WORDS = ['true', 'false', 'null', '0', '-1', '1.5e3', '123456', '-0', '1e400'];
const SPACES = ['', '', '', ' ', '\n', '\t \r\n'];
const JUNK = ['"', ',', ':', '[', ']', '{', '}', '\\', 'x', '1', ' ', '\\u', 'é', 'nul', '\n'];

function randomJson(random: (below: number) => number): string {
  const one = (of: readonly string[]) => of[random(of.length)] as string;
  const space = () => one(SPACES);
  function value(depth: number): string {
    const kind = random(depth > 4 ? 2 : 5);
    if (kind === 0) return one(STRINGS);
    if (kind === 1) return one(WORDS);
    const isArray = kind !== 2;
    const members = Array.from({ length: random(5) }, () => {
      const child = `${space()}${value(depth + 1)}${space()}`;
      return isArray ? child : `${space()}${one(NAMES)}${space()}:${child}`;
    });
    const inner = members.join(',') || space();
    return isArray ? `[${inner}]` : `{${inner}}`;
  }
  return space() + value(0) + space();
}

/** Inserts, removes, changes or repeats bytes. */
function mutated(bytes: Buffer, random: (below: number) => number): Buffer {
  const at = random(bytes.length + 1);
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (random(4)) {
    case 0:
      return Buffer.concat([head, Buffer.from(JUNK[random(JUNK.length)] as string), tail]);
    case 1:
      return Buffer.concat([head, tail.subarray(1 + random(3))]);
    case 2:
      return Buffer.concat([head, Buffer.from([random(256)]), tail.subarray(1)]);
    default:
      return Buffer.concat([head, head.subarray(random(at + 1)), tail]);
  }
}

describe('parseSlices', () => {
  it.each([1, 2, 3, 4])('accepts and refuses the same texts as JSON.parse, with the same values (seed %i)', (seed) => {
    const random = randomNumbers(seed);
    let [valid, invalid] = [0, 0];
    for (let round = 0; round < 700; round += 1) {
      let bytes = Buffer.from(randomJson(random));
      for (let changes = random(3); changes > 0; changes -= 1) bytes = mutated(bytes, random) as Buffer<ArrayBuffer>;
      if (bytes.length === 0 || MISREAD_NAME.test(bytes.toString())) continue;
      let expected: { value: unknown } | undefined;
      try {
        expected = { value: parseJson(bytes.toString()) };
        valid += 1;
      } catch {
        invalid += 1;
      }
      const before = Buffer.from(bytes);
      for (const sliceBytes of [1, 2, 3, 7, 20]) {
        const largest = [1, 4, 30][random(3)] as number;
        let found: Parsed | undefined;
        try {
          found = parse(bytes, sliceBytes, () => 1 + random(largest));
        } catch (error) {
          if (!(error instanceof ApiError) || error.code !== 'invalid_json') throw error;
        }
        const label = `${sliceBytes}: ${bytes.toString()} (${bytes.toString('hex')})`;
        expect(found === undefined, label).toBe(expected === undefined);
        expect(found?.value, label).toEqual(expected?.value);
        // The order of the names too.
        expect(JSON.stringify(found?.value), label).toBe(JSON.stringify(expected?.value));
      }
      expect(bytes.equals(before)).toBe(true);
    }
    expect(valid).toBeGreaterThan(150);
    expect(invalid).toBeGreaterThan(150);
  });

  it('reads __proto__ as an ordinary name, wherever the text is cut', () => {
    const text = '{"a":[1,2,3,4,5],"__proto__":{"polluted":[1,2,3,4]},"b":2}';
    for (let sliceBytes = 1; sliceBytes < text.length; sliceBytes += 1) {
      const value = parse(Buffer.from(text), sliceBytes).value as object;
      expect(Object.keys(value)).toEqual(['a', '__proto__', 'b']);
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    }
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('takes many steps for long texts of any shape', () => {
    const ids = Array.from({ length: 300 }, (_, row) => Array.from({ length: 1_000 }, (_, index) => row * index));
    const bodies = [
      { input: ids },
      { input: ids.flat() },
      { input: Array.from({ length: 200 }, (_, index) => `${index} river market morning `.repeat(400)) },
      { input: 'one long text, "quoted"\n'.repeat(80_000) },
      { input: '漢字かな交じり文'.repeat(80_000) },
      {
        messages: [
          { content: Array.from({ length: 30_000 }, (_, index) => ({ type: 'text', text: `part ${index}` })) },
        ],
      },
      Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`name ${index}`, [index]])),
    ];
    for (const body of bodies) {
      const bytes = Buffer.from(JSON.stringify(body));
      const { value, pauses } = parse(bytes);
      expect(value).toEqual(body);
      expect(pauses).toBeGreaterThan(bytes.length / 131_072 - 2);
      expect(isLarge(value)).toBe(true);
    }
  });

  it('marks the parts that took more than one step', () => {
    const body = { small: [1, 2], large: Array.from({ length: 40_000 }, (_, index) => index), deep: { inner: [{}] } };
    const value = parse(Buffer.from(JSON.stringify(body))).value as typeof body;
    expect([value.small, value.large, value.deep, 'text', null].map(isLarge)).toEqual([
      false,
      true,
      false,
      false,
      false,
    ]);
  });

  it('reports what is wrong and where', () => {
    const many = `[${'1,'.repeat(100_000)}`;
    expect(refusal(`${many}]`)).toContain('Unexpected token \']\', ..."1,1,1,1,1,]" is not valid JSON');
    expect(refusal(`${many},1]`)).toContain("Unexpected token ','");
    expect(refusal(`${many}x,1]`)).toContain('Unexpected token \'x\', ..."1,1,1,1,1,x,1]" is not valid JSON');
    expect(refusal(`${many}1}`)).toContain("Unexpected token '}' in JSON at byte 200002");
    expect(refusal(`${many}1`)).toContain('Unexpected end of JSON input');
    expect(refusal(`${many}"a`)).toContain('Unterminated string in JSON at byte 200001');
    expect(refusal(`${many}"\\q"]`)).toContain('Bad escaped character in JSON at byte 200003');
    expect(refusal(`${many}1] x`)).toContain("Unexpected token 'x' in JSON at byte 200004");
    expect(refusal(`{"a":${many}1] "b":1}`)).toContain("Unexpected token '\"' in JSON at byte 200009");
  });

  it('refuses only what would take long in one step', () => {
    const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    expect(refusal(nested(128))).toBe('accepted');
    expect(refusal(nested(129))).toContain('deeper than 128 levels');
    const items = (count: number) => `[${'1,'.repeat(count - 1)}1]`;
    expect(refusal(items(1_048_576))).toBe('accepted');
    expect(refusal(items(1_048_577))).toContain('more than 1048576 items');
    const members = (count: number) => `{${Array.from({ length: count }, (_, index) => `"${index}":1`).join()}}`;
    expect(refusal(members(65_536))).toBe('accepted');
    expect(refusal(members(65_537))).toContain('more than 65536 members');
    expect(refusal(`[${'{"a":1},'.repeat(131_072)}0]`)).toBe('accepted');
    expect(refusal(`[${'{"a":1},'.repeat(131_073)}0]`)).toContain('more than 131072 names');
    expect(refusal(`[1,${' '.repeat(262_000)}2]`)).toBe('accepted');
    expect(refusal(`[1,${' '.repeat(262_145)}2]`)).toContain('white space in it is longer');
    expect(refusal(`{"${'n'.repeat(262_000)}":1}`)).toBe('accepted');
    expect(refusal(`{"${'n'.repeat(262_145)}":1}`)).toContain('a name in it is longer');
  });
});
