import { QUARTERS_PER_TOKEN, tokenQuarters } from '@baobab/core/domain/text-size.ts';
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
import { partOf } from '@baobab/core/runtime/work.ts';
import type { InferenceCall } from './call.ts';
import { type Reservation, Steps } from './limits/admission.ts';
import type { InferenceSession } from './session.ts';

/**
 * Gets the events of each choice in order, and what it has used so far. A choice waits for the returned promise. `withheld`: the client
 * gets nothing of the event.
 */
export type ChatSink = (choice: number, event: ChatEvent, used: TokenUsage) => void | 'withheld' | Promise<void>;

/** The same for a text as JSON, in the form that the client gets. */
export type ChatJsonSink = (choice: number, text: string) => void | Promise<void>;

/** Answers whose length is open are reserved in steps of so many tokens: seconds of work for most engines. */
export const STEP_TOKENS = 512;

/** Keeps one request from taking all slots of a small engine. */
const CHOICES_AT_ONCE = 2;

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/** A prompt is billed once for all its choices. */
function addUp(usages: readonly TokenUsage[], choices: number): TokenUsage {
  const sum = { ...NO_USAGE };
  for (let first = 0; first < usages.length; first += choices) {
    const ofPrompt = usages.slice(first, first + choices);
    sum.promptTokens += Math.max(0, ...ofPrompt.map((usage) => usage.promptTokens));
    sum.cachedTokens += ofPrompt[0]?.cachedTokens ?? 0;
    for (const { completionTokens } of ofPrompt) sum.completionTokens += completionTokens;
  }
  return sum;
}

const consumption = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage) => ({
  promptTokens,
  completionTokens,
  cacheReadTokens: Math.min(cachedTokens, promptTokens),
});

interface RunOptions {
  call: InferenceCall;
  /** One for each prompt. */
  requests: readonly ChatRequest[];
  /** Answers to each of them. */
  choices: number;
  sink: ChatSink;
  /** Undefined: the sink takes events only. */
  jsonSink: ChatJsonSink | undefined;
  /** Tokens that all choices together cannot pass. */
  most: number;
}

/** Stops an engine when the budgets cannot pay for the rest. */
class BudgetUsedUp extends Error {}

class Choice implements GenerationSink {
  readonly deliver: GenerationSink['deliver'];
  readonly deliverJson: GenerationSink['deliverJson'];
  usage: TokenUsage = NO_USAGE;
  /** As of the last event that the budgets could pay. */
  paid: TokenUsage = NO_USAGE;
  isStopped = false;
  servedRegion: string | undefined;
  #isCut = false;

  constructor({ deliver, deliverJson }: Pick<GenerationSink, 'deliver' | 'deliverJson'>) {
    this.deliver = deliver;
    this.deliverJson = deliverJson;
  }

  /** What is written beyond what is paid does not count. */
  cutToPaid(): void {
    this.#isCut = true;
    this.usage = this.paid;
  }

  used(usage: TokenUsage, servedRegion?: string): void {
    if (!this.#isCut) this.usage = usage;
    this.servedRegion = servedRegion;
  }
}

/** The tokens that all choices have written, as the engine has counted them. Of an upstream, at least what their text shows. */
class Spending {
  readonly #steps: Steps;
  readonly #countsAreTrue: boolean;
  #events = 0;
  #quarters = 0;

  constructor(reservation: Reservation, { most, countsAreTrue }: { most: number; countsAreTrue: boolean }) {
    this.#steps = new Steps(reservation, { measure: 'completionTokens', size: STEP_TOKENS, most });
    this.#countsAreTrue = countsAreTrue;
  }

  /** No promise while a step lasts. */
  mayTake(event: ChatEvent, choices: readonly Choice[]): boolean | Promise<boolean> {
    if (event.type === 'start' || event.type === 'end') return true;
    return this.mayTakeText(event.type === 'tool-call-delta' ? event.argumentsDelta : event.text, choices);
  }

  mayTakeText(text: string, choices: readonly Choice[]): boolean | Promise<boolean> {
    let counted = 0;
    for (const { usage } of choices) counted += usage.completionTokens;
    if (this.#countsAreTrue) return this.#steps.mayUse(counted);
    this.#events += 1;
    this.#quarters += tokenQuarters(text);
    return this.#steps.mayUse(Math.max(counted, this.#events, Math.ceil(this.#quarters / QUARTERS_PER_TOKEN)));
  }
}

/** The error of one of several prompts, which it names. */
const ofPrompt = (error: unknown, index: number): unknown =>
  error instanceof ApiError
    ? error.mapFields((path) => (path.length === 1 && path[0] === 'prompt' ? ['prompt', index] : path))
    : error;

/** All choices of one admitted request. A class: thousands of streams may be open. */
export class ChatRun {
  readonly #chat: ChatCapability;
  readonly #session: InferenceSession;
  readonly #options: RunOptions;
  readonly #choices: Choice[] = [];
  /** Undefined: the whole answer is paid, or no budget limits it. */
  readonly #spending: Spending | undefined;
  #isDelivered = false;

  constructor(session: InferenceSession, options: RunOptions) {
    this.#chat = session.capability('chat');
    this.#session = session;
    const { reservation } = session;
    const isOpen = reservation !== undefined && reservation.first.completionTokens < options.most;
    this.#spending = isOpen
      ? new Spending(reservation, { most: options.most, countsAreTrue: session.countsAreTrue })
      : undefined;
    const counted = () => options.requests.map((request) => ({ ...request, counted: true }));
    this.#options = isOpen ? { ...options, requests: counted() } : options;
  }

  async run(): Promise<TokenUsage> {
    const session = this.#session;
    const { call, requests, choices } = this.#options;
    const [only] = requests;
    try {
      await (requests.length * choices === 1 && only ? this.#pump(0, only, session.context) : this.#pumpAll());
    } catch (error) {
      // Usage is final only now, and no more events are written.
      const used = this.#usage();
      const cancelled = call.signal.aborted ? cancellation(call.signal) : undefined;
      // A client that leaves pays for what it caused, one that gets an error only for what came before it.
      const isBilled = cancelled?.code === 'client_cancelled' ? used.promptTokens > 0 : this.#isDelivered;
      if (isBilled) {
        const status = cancelled?.status ?? (error instanceof ApiError ? error.status : 500);
        await session.settle(consumption(used), this.#details(status));
      }
      throw cancelled ?? error;
    }
    const used = consumption(this.#usage());
    await session.settle(used, this.#details());
    const { promptTokens, completionTokens, cacheReadTokens } = session.billed ?? used;
    return { promptTokens, completionTokens, cachedTokens: cacheReadTokens };
  }

  #usage(): TokenUsage {
    return addUp(
      this.#choices.map(({ usage }) => usage),
      this.#options.choices,
    );
  }

  /** If one choice fails, the others are stopped. A combined signal is costly, and a single choice has no others. */
  async #pumpAll(): Promise<void> {
    const { requests, choices } = this.#options;
    const count = requests.length * choices;
    const { context: outer } = this.#session;
    const stop = new AbortController();
    const signal = AbortSignal.any([outer.signal, stop.signal]);
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < count && !stop.signal.aborted) {
        const choice = next++;
        const index = Math.floor(choice / choices);
        const request = requests[index] as ChatRequest;
        // Choices differ only in their seed; without one, each engine call picks a random one.
        const seed = request.seed === undefined ? undefined : request.seed + (choice % choices);
        try {
          await this.#pump(choice, { ...request, seed }, partOf(outer, 1 / count, signal));
        } catch (error) {
          throw requests.length > 1 ? ofPrompt(error, index) : error;
        }
      }
    };
    const lanes = Array.from({ length: Math.min(count, CHOICES_AT_ONCE) }, lane);
    try {
      await Promise.all(lanes);
    } catch (error) {
      stop.abort(error);
      await Promise.allSettled(lanes);
      throw error;
    }
  }

  #pump(choice: number, request: ChatRequest, context: CallContext): Promise<void> {
    const { reservation } = this.#session;
    if (reservation !== undefined) return this.#pumpPaid(choice, request, context, reservation);
    const own = new Choice({
      deliver: (event) => this.#take(choice, request, event, own.usage),
      deliverJson: this.#options.jsonSink && ((text) => this.#takeJson(choice, text)),
    });
    this.#choices.push(own);
    return this.#chat.generate(request, context, own);
  }

  async #pumpPaid(choice: number, request: ChatRequest, context: CallContext, reservation: Reservation): Promise<void> {
    const take = (event: ChatEvent) => this.#take(choice, request, event, own.usage);
    const stop = async (): Promise<void> => {
      // The rest was not delivered, and an engine that runs here has counted what was.
      if (this.#session.countsAreTrue) own.cutToPaid();
      await take({ type: 'end', reason: 'length', stoppedBy: 'budget', usage: own.usage });
      own.isStopped = true;
      throw new BudgetUsedUp();
    };
    const pay = (give: () => void | Promise<void>): void | Promise<void> => {
      own.paid = own.usage;
      return give();
    };
    const payIf = (may: boolean | Promise<boolean>, give: () => void | Promise<void>): void | Promise<void> => {
      if (may === true) return pay(give);
      if (may === false) return stop();
      return may.then((isPaid) => (isPaid ? pay(give) : stop()));
    };
    const own = new Choice({
      deliver: (event) => {
        const give = () => take(event);
        if (event.type === 'start' && this.#session.countsAreTrue) {
          const reserved = this.#reservePrompt(reservation);
          return reserved === undefined ? pay(give) : reserved.then(() => pay(give));
        }
        return payIf(this.#spending?.mayTake(event, this.#choices) ?? true, give);
      },
      deliverJson:
        this.#options.jsonSink &&
        ((text) =>
          payIf(this.#spending?.mayTakeText(JSON.parse(text), this.#choices) ?? true, () =>
            this.#takeJson(choice, text),
          )),
    });
    this.#choices.push(own);
    try {
      await this.#chat.generate(request, context, own);
    } catch (error) {
      if (!own.isStopped || context.signal.aborted) throw error;
    }
  }

  /** The engine has counted the prompt, with what its template adds. Throws the error for the client if the budgets do not have it. */
  #reservePrompt(reservation: Reservation): undefined | Promise<void> {
    const { promptTokens, cacheReadTokens } = consumption(this.#usage());
    const { first } = reservation;
    return reservation.raise(
      this.#options.requests.length === 1
        ? { ...first, promptTokens, cacheReadTokens }
        : { ...first, promptTokens: Math.max(promptTokens, first.promptTokens) },
    );
  }

  #take(choice: number, { wholeAnswer }: ChatRequest, event: ChatEvent, used: TokenUsage): void | Promise<void> {
    if (event.type !== 'start') this.#session.noteFirstToken();
    const sent = this.#options.sink(choice, event, used);
    if (sent === 'withheld') return;
    if (event.type === 'start') return sent;
    if (sent instanceof Promise) return sent.then(() => this.#delivered(wholeAnswer));
    this.#delivered(wholeAnswer);
  }

  /** Only what is streamed is taken as JSON. */
  #takeJson(choice: number, text: string): void | Promise<void> {
    this.#session.noteFirstToken();
    const sent = this.#options.jsonSink?.(choice, text);
    if (sent instanceof Promise) return sent.then(() => this.#delivered(false));
    this.#delivered(false);
  }

  #delivered(wholeAnswer: boolean | undefined): void {
    this.#isDelivered = !wholeAnswer;
  }

  #details(status?: number) {
    const region = this.#choices.find(({ servedRegion }) => servedRegion !== undefined)?.servedRegion;
    return { status, region };
  }
}
