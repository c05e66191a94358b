import type { PreparationDependencies, PreparationModule, TurnContext } from '@baobab/core/engine/driver.ts';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { AccountCache } from '@baobab/core/runtime/account-cache.ts';
import { formatField } from '../grammar/format-grammar.ts';
import { isLargerThan } from '../grammar/schema-document.ts';
import { type CompileOutcome, type CompilerWorker, startCompilerWorker } from './compiler-worker.ts';
import { type GrammarRequest, grammarCharacters, type RequestGrammars } from './request-grammars.ts';

/** Adds the grammars of its schemas to a request. */
export const createChatPreparation: PreparationModule['createChatPreparation'] = (dependencies) => {
  const compiler = createGrammarCompiler(dependencies);
  return {
    async prepare(request, context) {
      return hasSchemas(request) ? { ...request, prepared: await compiler.compile(request, context) } : request;
    },
    close: compiler.close,
  };
};

const hasSchemas = ({ format, tools = [], toolChoice }: ChatRequest) =>
  (format !== undefined && format.type !== 'text' && format.type !== 'json_object') ||
  (tools.length > 0 && toolChoice !== 'none');

/**
 * Compiles the schemas of requests in threads of the server process. The step budget ends hostile schemas long before the time limit;
 * the limit is there for what the budget does not foresee. Either way the client gets a 422, and the engine process never sees the
 * schema.
 */
interface GrammarCompiler {
  compile(request: GrammarRequest, context: TurnContext): Promise<RequestGrammars>;
  close(): Promise<void>;
}

export interface GrammarCompilerOptions extends PreparationDependencies {
  threads?: number;
  timeLimitMs?: number;
  startWorker?: (timeLimitMs: number) => CompilerWorker;
}

const THREADS = 2;
const TIME_LIMIT_MS = 2_000;
const QUEUE_LENGTH = 256;
const QUEUE_TIMEOUT_MS = 30_000;
/** All schemas of a request together. */
const MAX_REQUEST_CHARACTERS = 400_000;
/** Clients send the same schema again and again. */
const KEPT_CHARACTERS = 16_000_000;

export function createGrammarCompiler({
  threads = THREADS,
  timeLimitMs = TIME_LIMIT_MS,
  startWorker = startCompilerWorker,
  createQueue,
}: GrammarCompilerOptions): GrammarCompiler {
  const idle: CompilerWorker[] = [];
  const busy = new Set<CompilerWorker>();
  // Each account has its own, so that how long an answer takes says nothing of the schemas of others.
  const results = new AccountCache<RequestGrammars>(KEPT_CHARACTERS);
  const queue = createQueue<CompilerWorker>({
    bound: { length: QUEUE_LENGTH, timeoutMs: QUEUE_TIMEOUT_MS, retryAfterSeconds: () => 1 },
  });

  const take = (): CompilerWorker | undefined => {
    if (busy.size >= threads) return undefined;
    const worker = idle.pop() ?? startWorker(timeLimitMs);
    busy.add(worker);
    return worker;
  };

  const run = async (request: GrammarRequest, context: TurnContext): Promise<CompileOutcome> => {
    const free = queue.isBehindOthers(context.priority) ? undefined : take();
    const worker = free ?? (await queue.wait(context, take));
    try {
      return await worker.run(request);
    } finally {
      busy.delete(worker);
      if (!worker.stopped) idle.push(worker);
      queue.wake();
    }
  };

  return {
    async compile({ format, tools, toolChoice, parallelToolCalls }, context) {
      const request = { format, tools, toolChoice, parallelToolCalls };
      if (isLargerThan(request, MAX_REQUEST_CHARACTERS)) throw tooLarge(locationOf(request));
      const key = JSON.stringify(request);
      const { accountId } = context;
      const known = results.get(accountId, key);
      if (known !== undefined) return known;
      const grammars = grammarsOf(await run(request, context), locationOf(request));
      results.set(accountId, key, { value: grammars, characters: key.length + grammarCharacters(grammars) });
      return grammars;
    },
    async close() {
      await Promise.all([...idle.splice(0), ...busy].map((worker) => worker.stop()));
    },
  };
}

function grammarsOf(outcome: CompileOutcome, location: FieldPath): RequestGrammars {
  switch (outcome.type) {
    case 'compiled':
      return outcome.grammars;
    case 'refused':
      throw new ApiError(outcome.code, outcome.text, { field: outcome.field });
    case 'exhausted':
      throw errors.unsupportedParameter(location, fieldText`What ${location} asks for is too complex to be enforced.`);
    case 'failed':
      throw new Error(outcome.message);
  }
}

const locationOf = ({ format }: GrammarRequest): FieldPath => (format === undefined ? ['tools'] : formatField(format));

const tooLarge = (location: FieldPath) =>
  errors.unsupportedParameter(
    location,
    fieldText`The schemas of this request are too large to be enforced. Up to ${MAX_REQUEST_CHARACTERS} characters are accepted.`,
  );
