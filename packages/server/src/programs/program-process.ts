import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineSpec } from '@baobab/core/domain/model.ts';
import { PROCESSOR } from '@baobab/core/engine/driver.ts';
import type { ComputeDevice } from '@baobab/core/engine/engine.ts';
import { CAPABILITIES } from '@baobab/core/engine/wire/messages.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { freePort } from '@baobab/core/runtime/free-port.ts';
import { createSecretScrubber } from '@baobab/core/runtime/secret-scrubber.ts';
import { childEnvironment } from '../host/process/child-process.ts';
import type { EngineProcess, EngineProcessOptions, LoadedFacts } from '../host/process/engine-process.ts';
import { EngineCrash, type EngineMethods } from '../host/process/pending-calls.ts';
import { dialectOf } from '../upstreams/dialects/dialects.ts';
import { createRemoteModel, type RemoteCalls, type RemoteModel, type RemoteTask } from '../upstreams/remote-model.ts';
import { isAlive } from '../upstreams/routing/health-check.ts';
import { type ChildProgram, startChildProgram } from './child-program.ts';
import { fill, findProgram } from './command-line.ts';
import type { CommandOptions } from './driver.ts';

export type ProgramOptions = Omit<EngineProcessOptions, 'module' | 'rights'>;

export interface ProgramDependencies {
  /** Where programs are that were built here. */
  folder: string;
  region: string;
  clock: Clock;
}

const HOST = '127.0.0.1';
const CHECK_TIMEOUT_MS = 5_000;
const CHECK_PAUSE_MS = 100;
/** How long the end of a program may take to show after its connections have broken. */
const EXIT_GRACE_MS = 1_000;
/** Requests have no deadline here, as in engine processes: a program that hangs does not answer its health checks. */
const LONGEST_ANSWER_MS = 24 * 3_600_000;
/** The host bounds how many requests there are. */
const MOST_WAITING_CALLS = 100_000;

const INSTALL = 'Install it, or build llama-server with: npx baobab engines build llama-server';

/** The registry has metrics of its own for what runs here. */
const NO_METRICS = {
  addUpstream: () => ({ finished() {}, retried() {}, overcounted() {}, removed() {} }),
  addQueue() {},
};

/** A program of the catalog as an engine process: it is started, supervised and asked in the same way. */
export function startProgram(options: ProgramOptions, dependencies: ProgramDependencies): EngineProcess {
  const { spec, logger, hangTimeoutMs } = options;
  const { options: engine } = spec.engine as EngineSpec<CommandOptions>;
  const model = `${spec.slug}@${spec.version}`;
  const loadTimeoutMs = engine.startTimeoutSeconds ? engine.startTimeoutSeconds * 1000 : options.loadTimeoutMs;
  const startedAt = performance.now();
  const ready = Promise.withResolvers<LoadedFacts>();
  const exited = Promise.withResolvers<string>();
  const stopping = new AbortController();
  ready.promise.catch(() => {});
  let child: ChildProgram | undefined;
  let remote: RemoteModel | undefined;
  let killReason: string | undefined;
  let monitor: NodeJS.Timeout | undefined;
  const loadTimer = setTimeout(() => kill(`it was not ready within ${loadTimeoutMs / 1000} s`), loadTimeoutMs);

  function kill(reason: string): void {
    killReason ??= reason;
    stopping.abort();
    child?.signal('SIGKILL');
  }

  async function run(): Promise<string> {
    const apiKey = randomBytes(24).toString('base64url');
    const port = await freePort({ host: HOST, port: 0 });
    stopping.signal.throwIfAborted();
    const name = engine.name ?? spec.slug;
    child = startChildProgram({
      ...commandOf(options, { port, apiKey, name, folder: dependencies.folder }),
      scrub: createSecretScrubber([apiKey]),
      logger,
      model,
    });
    const url = `http://${HOST}:${port}`;
    void child.ended.then(() => stopping.abort());
    if (!(await becomesReady(healthAddress(url, engine), apiKey, stopping.signal))) return child.exited;
    remote = createRemoteModel({
      slug: spec.slug,
      version: spec.version,
      task: spec.engine.task as RemoteTask,
      contextLength: spec.contextLength,
      upstreams: [
        {
          model: spec.slug,
          url: `${url}/v1`,
          kind: engine.kind,
          name,
          apiKey,
          maxConcurrency: spec.parallelSequences,
          connectTimeoutMs: CHECK_TIMEOUT_MS,
          firstByteTimeoutMs: LONGEST_ANSWER_MS,
          totalTimeoutMs: LONGEST_ANSWER_MS,
        },
      ],
      ownRegion: dependencies.region,
      logger,
      clock: dependencies.clock,
      queue: { length: MOST_WAITING_CALLS, timeoutMs: LONGEST_ANSWER_MS },
      metrics: NO_METRICS,
      healthIntervalMs: Math.min(CHECK_TIMEOUT_MS, hangTimeoutMs / 4),
    });
    clearTimeout(loadTimer);
    monitor = watchHealth(remote, hangTimeoutMs, kill);
    const { calls } = remote;
    const capabilities = CAPABILITIES.filter((each) => each === 'images' || calls[each] !== undefined);
    ready.resolve({ capabilities, loadMs: Math.round(performance.now() - startedAt), device: deviceOf(options) });
    return child.exited;
  }

  async function finish(reason: string): Promise<void> {
    clearTimeout(loadTimer);
    clearInterval(monitor);
    ready.reject(new EngineCrash(reason, { log: child?.tail() }));
    exited.resolve(reason);
    await remote?.[Symbol.asyncDispose]();
  }

  void run()
    .then(
      (reason) => killReason ?? reason,
      (error: Error) => {
        if (!stopping.signal.aborted) logger.error({ model, err: error }, 'failed to start a program');
        ready.reject(error);
        return killReason ?? error.message;
      },
    )
    .then(finish);

  /** Rejects with an `EngineCrash` if the program has ended, so that the call can be made again when it runs again. */
  async function ask<T>(call: (calls: RemoteCalls) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (remote === undefined) throw new EngineCrash(killReason ?? 'it is not running');
    try {
      return await call(remote.calls);
    } catch (error) {
      if (signal?.aborted || !(error instanceof ApiError) || error.status < 500) throw error;
      const hasEnded = child?.ended.then(() => true);
      if (!(await Promise.race([hasEnded, delay(EXIT_GRACE_MS, false, { ref: false })]))) throw error;
      throw new EngineCrash(await exited.promise);
    }
  }

  return {
    get pid() {
      return child?.pid;
    },
    ready: ready.promise,
    exited: exited.promise,
    residentBytes: () => 0,
    ...methodsOf(ask),
    async close(graceMs) {
      killReason ??= 'it was unloaded';
      stopping.abort();
      child?.signal('SIGTERM');
      const timer = setTimeout(() => child?.signal('SIGKILL'), graceMs);
      await exited.promise;
      clearTimeout(timer);
    },
    kill,
  };
}

type AskCalls = <T>(call: (calls: RemoteCalls) => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** The host asks only for what the capabilities of the program name. */
function present<T>(capability: T | undefined): T {
  if (capability === undefined) throw new Error('a program was asked for what its task does not have');
  return capability;
}

function methodsOf(ask: AskCalls): EngineMethods {
  return {
    async embed(request, context, bufferFor) {
      const result = await ask(({ embedding }) => present(embedding).embed(request, context), context.signal);
      bufferFor?.(result.dimensions).set(result.vectors);
      return result;
    },
    rerank: (request, context) => ask(({ rerank }) => present(rerank).rerank(request, context), context.signal),
    generate: (request, context, sink) =>
      ask(({ chat }) => present(chat).generate(request, context, sink), context.signal),
    transcribe: (request, context) =>
      ask(({ transcription }) => present(transcription).transcribe(request, context), context.signal),
    countTokens: (text, context) => ask((calls) => calls.countTokens(text), context.signal),
    countChatTokens: (request, context) =>
      ask(({ chat }) => present(present(chat).countTokens)(request, context), context.signal),
    encodeChat: (request, context) =>
      ask(({ chat }) => present(present(chat).encode)(request, context), context.signal),
    encode: (text, special, context) =>
      ask(({ tokenizer }) => present(tokenizer).encode(text, special, context), context.signal),
    decode: (tokens, context) => ask(({ tokenizer }) => present(tokenizer).decode(tokens, context), context.signal),
  };
}

interface Start {
  port: number;
  apiKey: string;
  name: string;
  /** Of programs that were built here. */
  folder: string;
}

/** What to run. Throws what an operator has to do where that is not possible. */
function commandOf({ spec, environment }: ProgramOptions, { port, apiKey, name, folder }: Start) {
  const { options } = spec.engine as EngineSpec<CommandOptions>;
  const { directory, contextLength, parallelSequences } = spec;
  const places = {
    host: HOST,
    port: String(port),
    name,
    api_key: apiKey,
    folder: directory,
    context: String(contextLength),
    total_context: String(contextLength * parallelSequences),
    parallel: String(parallelSequences),
    threads: String(spec.threads),
    ...(options.weights !== undefined && { weights: join(directory, options.weights) }),
  };
  const own = (options.environment ?? []).map((each) => fill(each, places, directory));
  const [first = '', ...args] = options.command.map((each) => fill(each, places, directory));
  if (![...options.command, ...(options.environment ?? [])].some((each) => each.includes('{port}'))) {
    throw new Error("its command has no place '{port}' for the port that it has to listen on");
  }
  const program = findProgram(first, folder, environment.PATH);
  if (program === undefined) {
    throw new Error(`there is no program '${first}' in ${folder} or on the PATH. ${INSTALL}`);
  }
  const { keyVariable } = dialectOf(options.kind);
  return {
    program,
    args,
    environment: {
      ...childEnvironment(environment),
      ...(keyVariable !== undefined && { [keyVariable]: apiKey }),
      ...Object.fromEntries(own.map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)])),
    },
  };
}

function deviceOf({ spec }: ProgramOptions): ComputeDevice | undefined {
  const { videoMemoryMb } = (spec.engine as EngineSpec<CommandOptions>).options;
  if (videoMemoryMb === undefined || spec.backend === PROCESSOR.backend) return undefined;
  return { backend: spec.backend, names: [], gpuLayers: 1, layers: 1, videoBytes: videoMemoryMb * 1024 * 1024 };
}

function healthAddress(origin: string, { kind }: CommandOptions): string {
  const { base, route } = dialectOf(kind).health;
  return `${origin}${base === 'api' ? '/v1' : ''}${route}`;
}

/** Resolves with false when `signal` fires before the program answers its health check. */
async function becomesReady(address: string, apiKey: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    try {
      const answer = await fetch(address, {
        headers: { authorization: `Bearer ${apiKey}` },
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(CHECK_TIMEOUT_MS)]),
      });
      await answer.body?.cancel();
      if (isAlive(answer.status)) return true;
    } catch {
      // It does not listen yet.
    }
    await delay(CHECK_PAUSE_MS, undefined, { signal }).catch(() => {});
  }
  return false;
}

/** A program that has failed its health checks for so long does not come back by itself. */
function watchHealth(remote: RemoteModel, hangTimeoutMs: number, kill: (reason: string) => void): NodeJS.Timeout {
  let silentMs = 0;
  const intervalMs = hangTimeoutMs / 4;
  return setInterval(() => {
    // Requests that fail open the breaker; whether it is alive is known again when that has closed.
    const isAlive = remote.health().some(({ healthy, breaker }) => healthy || breaker !== 'closed');
    silentMs = isAlive ? 0 : silentMs + intervalMs;
    if (silentMs >= hangTimeoutMs) kill(`it did not answer its health checks for ${hangTimeoutMs / 1000} s`);
  }, intervalMs).unref();
}
