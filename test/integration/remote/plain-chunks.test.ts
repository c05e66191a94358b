import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { ApiError } from '../../../packages/core/src/errors/api-error.ts';
import { errors } from '../../../packages/core/src/errors/errors.ts';
import { createSecretScrubber } from '../../../packages/core/src/runtime/secret-scrubber.ts';
import { turnShares } from '../../../packages/core/src/runtime/turn-shares.ts';
import { CompletionWriter } from '../../../packages/server/src/http/endpoints/chat/endpoint.ts';
import type { InferenceCall } from '../../../packages/server/src/inference/call.ts';
import { type AnswerWriter, createChat } from '../../../packages/server/src/inference/chat.ts';
import { Reservation } from '../../../packages/server/src/inference/limits/admission.ts';
import type { BilledWork } from '../../../packages/server/src/inference/pipeline.ts';
import type { InferenceSession } from '../../../packages/server/src/inference/session.ts';
import { createRemoteChat } from '../../../packages/server/src/upstreams/chat/capability.ts';
import { vllm } from '../../../packages/server/src/upstreams/dialects/vllm.ts';
import type { Route } from '../../../packages/server/src/upstreams/routing/router.ts';
import type { Upstream } from '../../../packages/server/src/upstreams/routing/upstream.ts';
import { UpstreamCall } from '../../../packages/server/src/upstreams/routing/upstream-call.ts';
import type { Receiver } from '../../../packages/server/src/upstreams/transport/connection.ts';
import { testModel } from '../../fixtures/engine-bed.ts';

/*
 * A text that an upstream has written as JSON passes without being parsed, where nothing else has to be known of its chunk. For any answer, the
 * client must get the same and pay the same as if every chunk were read.
 */

// Turns depend on the time.
beforeAll(() => void vi.spyOn(turnShares, 'run').mockImplementation((_accountId, piece) => piece()));
afterAll(() => void vi.restoreAllMocks());

const SECRET = 'sk-123456';
const { entry: small, version } = testModel('acme/chat');
const entry = { ...small, capabilities: { ...small.capabilities, tools: true } };

interface Scenario {
  bytes: Buffer;
  cuts: readonly number[];
  /** The connection breaks at the end. */
  breaks: boolean;
  request: Pick<ChatRequest, 'tools' | 'toolChoice' | 'countsEach' | 'maxTokens' | 'logprobs'>;
  choices: number;
  withUsage: boolean;
  hasKey: boolean;
  /** Tokens that the budget pays for. */
  budget: number | undefined;
  /** The client leaves when it gets this event. */
  leavesAt: number | undefined;
  /** Each so many events, the client is slow. */
  slowEach: number;
}

async function answered(scenario: Scenario, writesJson: boolean) {
  const { bytes, cuts, breaks, request, choices, withUsage, hasKey, budget, leavesAt, slowEach } = scenario;
  const leaving = new AbortController();
  const receivers: Receiver[] = [];
  const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  async function feed(receiver: Receiver): Promise<void> {
    receiver.onHead({ status: 200, headers: { 'content-type': 'text/event-stream' } } as never);
    for (const [index, to] of edges.slice(1).entries()) {
      receiver.onBody(bytes, edges[index] as number, to);
      if (index % 3 === 0) await nextTurn();
    }
    if (breaks) receiver.onFailure(new Error('reset'));
    else receiver.onEnd();
  }
  const upstream = {
    connections: {
      send(_request: unknown, receiver: Receiver) {
        receivers.push(receiver);
        void nextTurn().then(() => feed(receiver));
        const destroy = (reason: Error) => receiver.onFailure(reason);
        return { destroy, pause() {}, resume() {} };
      },
    },
    settings: { firstByteTimeoutMs: 60_000, totalTimeoutMs: 60_000 },
    deadlines: { watch() {}, forget() {} },
    path: () => '/',
    authorization: {},
    refusedOldKey: () => false,
    credentials: hasKey ? [SECRET] : [],
    scrub: createSecretScrubber([SECRET]),
    dialect: { ...vllm, countTexts: undefined },
    learned: {},
    model: 'm',
    region: 'here',
  } as unknown as Upstream;
  let asJson = 0;
  const seen = {
    events: [] as unknown[],
    settled: [] as unknown[],
    overcounts: 0,
    firstTokens: 0,
    released: [] as unknown[],
  };
  const route = {
    slug: entry.slug,
    contextLength: 2_048,
    async open(context: never, attempt: (call: UpstreamCall) => Promise<unknown>) {
      const call = new UpstreamCall({
        upstream,
        context,
        slug: entry.slug,
        contextLength: 2_048,
        onRelease: (failure) => seen.released.push(failure?.kind),
        onOvercount() {
          seen.overcounts += 1;
        },
      });
      try {
        return [await attempt(call), call];
      } catch (error) {
        call.release();
        throw error;
      }
    },
  } as unknown as Route;
  let granted = 8;
  const admitted = {
    extend({ costNanoUsd }: { costNanoUsd: number }) {
      if (granted + costNanoUsd > (budget ?? 0)) return errors.modelUnavailable('a', 'spent');
      granted += costNanoUsd;
      return undefined;
    },
  };
  const context = { requestId: 'r', accountId: 'a', keyId: 'k', priority: 'interactive', signal: leaving.signal };
  const session = {
    context,
    capability: () => createRemoteChat(route),
    reservation:
      budget === undefined
        ? undefined
        : new Reservation({
            admitted,
            priceOf: ({ completionTokens }) => completionTokens,
            first: { promptTokens: 0, completionTokens: 8, cacheReadTokens: 0, audioMs: 0 } as never,
          }),
    noteFirstToken() {
      seen.firstTokens += 1;
    },
    settle: async (used: unknown, details: unknown) => void seen.settled.push([used, details]),
  } as unknown as InferenceSession;
  const inference = {
    resolve: () => ({ reference: '', entry, version, regionPin: undefined }),
    run<Result>(_call: InferenceCall, work: BilledWork<Result>) {
      work.bound(inference.resolve() as never);
      return work.run(session);
    },
  };
  const command = {
    model: entry.slug,
    choices,
    request: { prompt: { messages: [{ role: 'user' as const, content: 'Hi' }] }, ...request },
  };
  const written = new CompletionWriter({
    idPrefix: 'chatcmpl',
    body: { model: 'm', stream: true, stream_options: { include_usage: withUsage } },
    command,
    clock: { now: () => 0 },
  });
  const whole: AnswerWriter<unknown> = {
    take: (...taken) => written.take(...taken),
    end: (usage) => written.end(usage),
    fail: (error) => written.fail(error),
    answer: () => written.answer(),
  };
  const takesJson: AnswerWriter<unknown> = {
    ...whole,
    takeJson(...taken) {
      asJson += 1;
      return written.takeJson(...taken);
    },
  };
  const chat = createChat({ inference, images: {} as never, documents: {} as never });
  const ids = new Map<string, string>();
  const note = (text: string): void => {
    for (const event of text.split('\n\n').filter(Boolean)) {
      const json = event.slice('data: '.length);
      if (json === '[DONE]') seen.events.push(json);
      else {
        // Ids are random.
        const known = json.replaceAll(
          /call_[0-9a-f]{32}/g,
          (id) => ids.getOrInsertComputed?.(id, () => `${ids.size}`) ?? 'id',
        );
        seen.events.push({ ...JSON.parse(known), id: '' });
      }
    }
  };
  let sent = 0;
  const send = (text: string): void | Promise<void> => {
    sent += 1;
    if (sent === leavesAt) {
      leaving.abort(errors.clientCancelled());
      throw errors.clientCancelled();
    }
    note(text);
    return sent % slowEach === 0 ? nextTurn() : undefined;
  };
  let outcome: unknown;
  try {
    note(
      await chat.stream(
        { signal: leaving.signal, principal: { account: { id: 'a' } } } as InferenceCall,
        command,
        writesJson ? takesJson : whole,
        send,
      ),
    );
  } catch (error) {
    outcome = error instanceof ApiError ? [error.code, error.message] : error;
  }
  return { asJson, seen: { ...seen, outcome } };
}

const text = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(' word', 'Hello', '"', 'a\nb', '\\', '🌳', 'ü', '漢字', '', '</s>', 'ss', ' '),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('sk-', '123', 'sk-123456', 'sk-12', '456', '{"name":"look",', '"arguments":{}}'),
  },
  { weight: 2, arbitrary: fc.string({ unit: 'binary' }) },
);
const count = fc.oneof(fc.nat(40), fc.constantFrom(-1, 1.5, 1e9));
const usage = fc.record({
  prompt_tokens: fc.constantFrom(3, 3, 3, 4),
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: fc.constantFrom(null, undefined, { cached_tokens: 2 }),
  completion_tokens_details: fc.constantFrom(undefined, undefined, { reasoning_tokens: 4 }),
});
const common = fc.record({
  id: fc.constantFrom('chatcmpl-1', 'a"b'),
  created: fc.constantFrom(1_760_000_000, 1_760_000_001),
  obfuscation: fc.option(fc.string({ maxLength: 5 }), { nil: undefined }),
  extra: fc.constantFrom(undefined, { choices: [], content: ' word', completion_tokens: 9 }, 1, null),
});
const tail = fc.oneof(
  fc.constant({ usage: undefined }),
  fc.constant({ usage: null }),
  fc.record({ usage }),
  fc.record({
    timings: fc.record({
      prompt_n: fc.constant(3),
      cache_n: fc.nat(2),
      predicted_n: count,
      predicted_ms: fc.double({ noNaN: true, noDefaultInfinity: true }),
    }),
  }),
);
const plain = fc
  .record({
    text,
    common,
    tail,
    finish: fc.constantFrom(null, undefined, ''),
    role: fc.constantFrom(undefined, 'assistant'),
  })
  .map(({ text: content, common: { id, created, ...rest }, tail: end, finish, role }) => ({
    id,
    created,
    before: rest.extra,
    choices: [{ index: 0, delta: { role, content }, logprobs: null, finish_reason: finish }],
    ...rest,
    ...end,
  }));
const choice = (given: object) => ({ choices: [{ index: 0, finish_reason: null, ...given }] });
const other = fc.oneof(
  text.map((content) => choice({ delta: { reasoning_content: content } })),
  text.map((content) => choice({ delta: { content, reasoning: 'hm' } })),
  text.map((content) => choice({ delta: { content }, token_ids: [1, 2] })),
  text.map((content) => choice({ delta: { content }, logprobs: { content: [{ token: content, logprob: -1 }] } })),
  text.map((content) => choice({ delta: { content, tool_calls: [] } })),
  text.map((content) => choice({ delta: { content }, stop_reason: content })),
  text.map((content) => ({ choices: [{ text: content }] })),
  text.map((content) => ({ choices: [{ delta: { content } }, { index: 1, delta: { content: 'second' } }] })),
  text.map((content) =>
    choice({ delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'look', arguments: content } }] } }),
  ),
  fc.constantFrom<unknown>(
    choice({ delta: { content: null } }),
    choice({ delta: { content: 5 } }),
    choice({ delta: { content: [{ type: 'text', text: 'part' }] } }),
    choice({ delta: {}, finish_reason: 'stop' }),
    choice({ delta: { content: 'last' }, finish_reason: 'length' }),
    choice({ delta: {}, finish_reason: 'abort' }),
    { choices: [] },
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 7 } },
    null,
  ),
  fc.constantFrom({ error: { message: 'died', code: 500 } }, { error: null, ...choice({ delta: { content: 'a' } }) }),
);
const escaped = (json: string): string =>
  json.replaceAll(/[\u0080-\uffff<]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const SPELLINGS: ((value: unknown) => string)[] = [
  (value) => JSON.stringify(value),
  (value) => JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' '),
  (value) => escaped(JSON.stringify(value)),
];
const events = fc.record({
  form: plain,
  pieces: fc.array(
    fc.oneof(
      { weight: 30, arbitrary: fc.record({ text, tokens: count }) },
      {
        weight: 2,
        arbitrary: fc.record({
          text,
          tokens: count,
          at: fc.nat(400),
          damage: fc.constantFrom('\t', '"', '\\', '}', '0', 'x', '', '\\u00zz', '01'),
        }),
      },
      { weight: 3, arbitrary: plain.map((chunk) => ({ chunk: chunk as unknown })) },
      { weight: 3, arbitrary: other.map((chunk) => ({ chunk })) },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom(
            ': ping\n\n',
            'data: {oh\n\n',
            'data: [DONE]\n\n',
            'event: x\ndata: {"choices":\ndata: []}\n\n',
            'data:{}\r\n\r\n',
            '\n',
            'data: {"choices":[{"delta":{"content":"a","content":"b"}}]}\n\n',
            'error: {"message":"x"}\n\n',
          )
          .map((raw) => ({ raw })),
      },
    ),
    { minLength: 1, maxLength: 30 },
  ),
  spelling: fc.nat(SPELLINGS.length - 1),
  ends: fc.boolean(),
  lineEnd: fc.constantFrom('\n', '\n', '\n', '\n', '\r\n'),
});
const bytes = events.map(({ form, pieces, spelling, ends, lineEnd }) => {
  const spell = SPELLINGS[spelling] as (value: unknown) => string;
  const event = (json: string) => `data: ${json}${lineEnd}${lineEnd}`;
  const written = pieces.map((piece) => {
    if ('raw' in piece) return piece.raw;
    if ('chunk' in piece) return event(spell(piece.chunk));
    // The chunks of one stream have one form.
    const counted = 'usage' in form && form.usage ? { usage: { ...form.usage, completion_tokens: piece.tokens } } : {};
    const timed = 'timings' in form ? { timings: { ...form.timings, predicted_n: piece.tokens } } : {};
    const [first] = form.choices;
    const json = spell({
      ...form,
      choices: [{ ...first, delta: { ...first?.delta, content: piece.text } }],
      ...counted,
      ...timed,
    });
    if (!('damage' in piece)) return event(json);
    const at = piece.at % (json.length + 1);
    return event(json.slice(0, at) + piece.damage + json.slice(at + (piece.at % 2)));
  });
  const end = ends ? event('{"choices":[{"delta":{},"finish_reason":"stop"}]}') + event('[DONE]') : '';
  return Buffer.from(written.join('') + end);
});
const scenario: fc.Arbitrary<Scenario> = fc.record({
  bytes,
  cuts: fc.array(fc.nat(8_000), { maxLength: 20 }),
  breaks: fc.boolean(),
  request: fc.record({
    tools: fc.constantFrom(undefined, undefined, [{ name: 'look' }]),
    toolChoice: fc.constantFrom(undefined, 'auto', 'required', 'none'),
    countsEach: fc.constantFrom(undefined, undefined, true),
    maxTokens: fc.constantFrom(undefined, 12, 40),
    logprobs: fc.constantFrom(undefined, undefined, { top: 1 }),
  }),
  choices: fc.constantFrom(1, 1, 2),
  withUsage: fc.boolean(),
  hasKey: fc.boolean(),
  budget: fc.option(fc.nat(60), { nil: undefined, freq: 1 }),
  leavesAt: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined, freq: 1 }),
  slowEach: fc.constantFrom(1, 3, 1_000),
}) as fc.Arbitrary<Scenario>;

describe('text that passes as JSON', () => {
  it('reaches the client and the bill as if every chunk were read', { timeout: 120_000 }, async () => {
    const numRuns = Number(process.env.BAOBAB_PROPERTY_RUNS ?? 400);
    let asJson = 0;
    await fc.assert(
      fc.asyncProperty(scenario, async (given) => {
        const passed = await answered(given, true);
        expect(passed.seen).toEqual((await answered(given, false)).seen);
        asJson += passed.asJson;
      }),
      { numRuns },
    );
    // Otherwise it compares nothing. One or two a run are usual, and their number varies with what is generated.
    expect(asJson).toBeGreaterThan(numRuns / 4);
  });
});
