import type {
  CallContext,
  ChatCapability,
  ChatEvent,
  ChatRequest,
  GenerationSink,
  TokenUsage,
} from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import type { InferenceCall } from './call.ts';
import type { ChatSink } from './chat-command.ts';
import type { InferenceSession } from './session.ts';

/** Keeps one request from taking all slots of a small engine. */
const CHOICES_AT_ONCE = 2;

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/** The prompt is billed once for all choices. */
function addUp(usages: readonly TokenUsage[]): TokenUsage {
  return {
    promptTokens: Math.max(0, ...usages.map((usage) => usage.promptTokens)),
    completionTokens: usages.reduce((sum, usage) => sum + usage.completionTokens, 0),
    cachedTokens: usages[0]?.cachedTokens ?? 0,
  };
}

const consumption = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage) => ({
  promptTokens,
  completionTokens,
  cacheReadTokens: Math.min(cachedTokens, promptTokens),
});

interface RunOptions {
  call: InferenceCall;
  request: ChatRequest;
  choices: number;
  sink: ChatSink;
}

class Choice implements GenerationSink {
  readonly deliver: GenerationSink['deliver'];
  usage: TokenUsage = NO_USAGE;
  servedRegion: string | undefined;

  constructor(deliver: GenerationSink['deliver']) {
    this.deliver = deliver;
  }

  used(usage: TokenUsage, servedRegion?: string): void {
    this.usage = usage;
    this.servedRegion = servedRegion;
  }
}

/** All choices of one admitted request. A class: thousands of streams may be open. */
export class ChatRun {
  readonly #chat: ChatCapability;
  readonly #session: InferenceSession;
  readonly #options: RunOptions;
  readonly #choices: Choice[] = [];
  #isDelivered = false;

  constructor(session: InferenceSession, options: RunOptions) {
    this.#chat = session.capability('chat');
    this.#session = session;
    this.#options = options;
  }

  async run(): Promise<TokenUsage> {
    const session = this.#session;
    const { call, request, choices } = this.#options;
    try {
      await (choices === 1 ? this.#pump(0, request, session.context) : this.#pumpAll());
    } catch (error) {
      // Usage is final only now, and no more events are written.
      const used = addUp(this.#choices.map(({ usage }) => usage));
      const cancelled = call.signal.aborted ? cancellation(call.signal) : undefined;
      // A client that leaves pays for what it caused, one that gets an error only for what came before it.
      const isBilled = cancelled?.code === 'client_cancelled' ? used.promptTokens > 0 : this.#isDelivered;
      if (isBilled) {
        const status = cancelled?.status ?? (error instanceof ApiError ? error.status : 500);
        await session.settle(consumption(used), this.#details(status));
      }
      throw cancelled ?? error;
    }
    const usage = addUp(this.#choices.map(({ usage }) => usage));
    await session.settle(consumption(usage), this.#details());
    return usage;
  }

  /** If one choice fails, the others are stopped. A combined signal is costly, and a single choice has no others. */
  async #pumpAll(): Promise<void> {
    const { request, choices } = this.#options;
    const { context: outer } = this.#session;
    const stop = new AbortController();
    const context = { ...outer, signal: AbortSignal.any([outer.signal, stop.signal]) };
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < choices && !stop.signal.aborted) {
        const choice = next++;
        // Choices differ only in their seed; without one, each engine call picks a random one.
        const seed = request.seed === undefined ? undefined : request.seed + choice;
        await this.#pump(choice, { ...request, seed }, context);
      }
    };
    const lanes = Array.from({ length: Math.min(choices, CHOICES_AT_ONCE) }, lane);
    try {
      await Promise.all(lanes);
    } catch (error) {
      stop.abort(error);
      await Promise.allSettled(lanes);
      throw error;
    }
  }

  #pump(choice: number, request: ChatRequest, context: CallContext): Promise<void> {
    const own = new Choice((event) => this.#take(choice, request, event));
    this.#choices.push(own);
    return this.#chat.generate(request, context, own);
  }

  #take(choice: number, { wholeAnswer }: ChatRequest, event: ChatEvent): void | Promise<void> {
    if (event.type !== 'start') this.#session.noteFirstToken();
    const sent = this.#options.sink(choice, event);
    if (sent === 'withheld') return;
    if (event.type === 'start') return sent;
    if (sent instanceof Promise) return sent.then(() => this.#delivered(wholeAnswer));
    this.#delivered(wholeAnswer);
  }

  #delivered(wholeAnswer: boolean | undefined): void {
    this.#isDelivered = !wholeAnswer;
  }

  #details(status?: number) {
    const region = this.#choices.find(({ servedRegion }) => servedRegion !== undefined)?.servedRegion;
    return { status, region };
  }
}
