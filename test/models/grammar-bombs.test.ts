import { expect, it } from 'vitest';
import type { EngineSpec } from '../../packages/core/src/domain/model.ts';
import type { ChatRequest } from '../../packages/core/src/engine/engine.ts';
import { pulled } from '../../packages/core/src/engine/testing/pulled-generation.ts';
import { systemClock } from '../../packages/core/src/runtime/clock.ts';
import { drivers } from '../../packages/server/src/drivers.ts';
import { noMetrics } from '../../packages/server/src/host/metrics.ts';
import { EngineRegistry } from '../../packages/server/src/host/registry.ts';
import { callContext, startProgram, testModel } from '../fixtures/engine-bed.ts';
import { weights } from './weights.ts';

const SLUG = 'huggingfacetb/smollm2-135m-instruct';
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const texts = (count: number) => Array.from({ length: count }, (_, index) => `v${index}`);
const format = (schema: Record<string, unknown>): Partial<ChatRequest> => ({ format: { type: 'json_schema', schema } });

/** Each level refers to the next one twice. */
function nested(level: (next: object, again: object) => object): Record<string, unknown> {
  const definitions = Array.from({ length: 30 }, (_, at) => {
    const [next, again] = [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/b${at + 1}` }];
    return [
      [`a${at}`, level(next, again)],
      [`b${at}`, level(again, next)],
    ];
  });
  const last = { a30: { type: 'string' }, b30: { type: 'integer' } };
  return { $ref: '#/$defs/a0', $defs: { ...Object.fromEntries(definitions.flat()), ...last } };
}

/** Texts that differ in their first character. */
const characters = (count: number, distance = 1) =>
  Array.from({ length: count }, (_, index) => String.fromCodePoint(0x4e00 + distance * index));
const pattern = (text: string) => format({ type: 'string', pattern: text });

const gbnf = (grammar: string): Partial<ChatRequest> => ({ format: { type: 'grammar', grammar } });
const chain = (rule: (next: string) => string) =>
  Array.from({ length: 30 }, (_, at) => `r${at} ::= ${rule(`r${at + 1}`)}`);

const ACCEPTED: Record<string, Partial<ChatRequest>> = {
  'empty alternatives': format({ type: 'string', pattern: `^(${'(|)'.repeat(25)}x){2}$` }),
  'anyOf of references': format(nested((next, again) => ({ anyOf: [next, again] }))),
  'loop over 1000 characters': pattern(`^(${characters(1_000).join('|')})*$`),
  'loop over 3000 characters': pattern(`^(${characters(3_000).join('|')})*$`),
  'long class': pattern(`^[${characters(4_000).join('')}]{0,2000}$`),
  'class at the limit': pattern(`^[${characters(1_000, 2).join('')}]{0,200}$`),
  'loop at the limit': pattern(`^(${characters(63, 2).join(' |')} )*$`),
  'deep grammar': gbnf('root ::= value\nvalue ::= [0-9]+ | "(" value ("," value)* ")"'),
  'grammar at the limit': gbnf(
    `root ::= (${characters(60, 2)
      .map((each) => `"${each} "`)
      .join(' | ')})+`,
  ),
  'regex of 1000 characters': { format: { type: 'regex', pattern: `(${characters(1_000).join('|')})+` } },
  'choice of 1000': { format: { type: 'choice', texts: texts(1_000) } },
  'enum of 5000': format({ enum: texts(5_000) }),
  'enum and enum': format({ allOf: [{ enum: texts(5_000) }, { enum: texts(5_000) }] }),
};
/** The keyword that the error names, and the request. */
const REFUSED: readonly [string, Partial<ChatRequest>][] = [
  ['pattern', pattern('^((a{1,50}){1,50}){1,50}$')],
  ['pattern', pattern(`^(${characters(250).join(' |')} )*$`)],
  ['pattern', pattern(`^(${characters(1_000, 2).join('a|')})*$`)],
  ['pattern', pattern(`^[${characters(4_000, 2).join('')}]{0,2000}$`)],
  ['format', gbnf('root ::= "a" root | "a" root "b" | "c"')],
  ['format', gbnf('root ::= root "a" | "a"')],
  ['format', gbnf([`root ::= r0`, ...chain((next) => `${next} "a" | ${next} "b"`), 'r30 ::= "x"'].join('\n'))],
  ['format', gbnf([`root ::= r0 "a"`, ...chain((next) => `${next} ${next}`), 'r30 ::= ""'].join('\n'))],
  ['format', { format: { type: 'regex', pattern: '((a{1,50}){1,50}){1,50}' } }],
  ['oneOf', format({ oneOf: texts(2_000).map((value) => ({ const: value })) })],
  ['enum', { tools: [{ name: 'act', parameters: { properties: { x: { enum: characters(5_000) } } } }] }],
];

it('hostile schemas neither stop nor slow the engine', async () => {
  const spec = await weights<EngineSpec['options']>(SLUG);
  const model = testModel(SLUG, spec.engine);
  const registry = new EngineRegistry({
    startProgram,
    weights: { ensure: async () => ({ directory: spec.directory }) },
    settings: {
      queueLength: 256,
      queueTimeoutSeconds: 60,
      loadTimeoutSeconds: 60,
      hangTimeoutSeconds: 5,
      idleUnloadSeconds: 0,
      memoryBudgetMb: 0,
      permissionModel: true,
      retryUnavailableSeconds: 60,
    },
    drivers,
    driverSettings: { onnxProcesses: 1, onnxThreads: 1, llamaThreads: 1, llamaSequences: 2 },
    clock: systemClock,
    logger: quiet,
    metrics: noMetrics,
    environment: process.env,
  });
  const chat = async (more: Partial<ChatRequest>) => {
    const context = callContext();
    using lease = await registry.acquire(model, context);
    const request: ChatRequest = {
      prompt: { messages: [{ role: 'user', content: 'Write a word.' }] },
      maxTokens: 4,
      seed: 1,
      ...more,
    };
    const generation = pulled(lease.engine.chat, request, context);
    for await (const _ of generation);
    return generation.usageSoFar().completionTokens;
  };
  try {
    expect(await chat({})).toBeGreaterThan(0);
    const [before] = await registry.list();
    const accepted = await Promise.all(Object.values(ACCEPTED).map(chat));
    for (const tokens of accepted) expect(tokens).toBeGreaterThan(0);
    for (const [keyword, request] of REFUSED) {
      await expect(chat(request)).rejects.toMatchObject({
        status: 422,
        message: expect.stringContaining(`'${keyword}'`),
      });
    }
    expect(await chat({})).toBeGreaterThan(0);
    const [after] = await registry.list();
    expect(after).toMatchObject({ status: 'ready', processIds: before?.processIds });
  } finally {
    await registry.close(0);
  }
});
