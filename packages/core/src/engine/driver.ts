import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type TSchema, Type } from 'typebox';
import type { EngineSpec, EngineTask } from '../domain/model.ts';
import type { CallContext, ChatRequest, EngineModel, Priority } from './engine.ts';

type Properties = Readonly<Record<string, TSchema>>;
type Values = Readonly<Record<string, unknown>>;

/**
 * One way to run models. A driver describes itself here, in the server process, without loading its native code; the module
 * that loads a model is imported by the engine process only.
 */
export interface Driver<Options = Values, Settings = Values> {
  /** As in `engine.driver` of the catalog. */
  readonly name: string;
  /** For each task it can do, the fields that `engine` has in the catalog beside driver and task. */
  readonly tasks: Readonly<Partial<Record<EngineTask, Properties>>>;
  /** Its part of the section `engines` of the configuration. */
  readonly settings: Properties;
  /** Its package is not installed, so what the catalog says of its models cannot be checked. */
  readonly isAbsent?: boolean;
  /** Only entries of the catalog that name it use it, whatever their weights. */
  readonly mustBeNamed?: boolean;
  /** How its models run in engine processes. Undefined when only upstreams run them. */
  readonly local?: LocalRuntime<Options, Settings>;
}

export interface LocalRuntime<Options = Values, Settings = Values> {
  /** A module with the exports of `DriverModule`. Undefined: its models run in programs that speak HTTP, and need no engine process. */
  readonly module?: URL;
  /** The `engine` fields for weights with these files, where the catalog leaves them out. Undefined: not for this driver. */
  recognise?(fileNames: readonly string[]): Partial<Options> | undefined;
  /** Files of the model that it cannot load without. */
  files(engine: EngineSpec<Options>): readonly string[];
  layout(engine: EngineSpec<Options>, settings: Settings, machine: MachineShape): Layout;
  /** A module with the exports of `AcceleratorModule`. Absent when its models run on the processor only. */
  readonly accelerators?: URL;
  /** What the model runs on, where that is not for `accelerators` to find out. */
  accelerator?(engine: EngineSpec<Options>): Promise<Accelerator>;
  /** Absent when its layout needs no measurement. */
  readonly trials?: LayoutTrials;
  /** Facts that the weights themselves hold. Cheap; undefined fields are not known. */
  facts?(engine: EngineSpec<Options>, directory: string): WeightFacts;
  /** The same for weights that are not here yet. */
  previewFacts?(preview: WeightsPreview): WeightFacts;
  /** An estimate of the most that it takes, to decide before the model loads. Once it is loaded, measured memory counts if it cannot grow. */
  memoryBytes(engine: EngineSpec<Options>, model: MemoryFacts): Promise<number>;
  /** The part of it for the contexts of requests, which grow as requests need them. */
  contextBytes?(engine: EngineSpec<Options>, model: MemoryFacts): Promise<number>;
  /** The next way to run it with less memory for contexts. Undefined: there is none. */
  withLessContext?(model: MemoryFacts): MemoryFacts | undefined;
  /** The same for the memory of GPUs, if the whole model is there. */
  videoBytes?(engine: EngineSpec<Options>, model: MemoryFacts): Promise<number>;
  /** What its engine process may do beyond reading code, packages and the model's directory. */
  rights?(directory: string, engine: EngineSpec<Options>): EngineRights;
  /**
   * A module with the exports of `PreparationModule`: work on chat requests that must not block an engine process, because
   * clients decide how much of it there is.
   */
  readonly preparation?: URL;
}

/** Rights of an engine process, for the JavaScript in it. */
export interface EngineRights {
  readable?: readonly string[];
  writable?: readonly string[];
  childProcesses?: boolean;
}

/**
 * Where requests wait for one of a few slots: accounts share what there is, and interactive requests go before batches. All need the same:
 * when one cannot proceed, those behind it are not asked.
 */
export interface TurnQueue<Slot> {
  /** Waits until `attempt` returns something. `attempt` may throw to end the wait. */
  wait(context: TurnContext, attempt: () => Slot | undefined): Promise<Slot>;
  /** Something was freed: asks the waiting requests again, in fair order. */
  wake(): void;
  /** Whether a new request of this priority would wait behind others. */
  isBehindOthers(priority: Priority): boolean;
}

export type TurnContext = Pick<CallContext, 'accountId' | 'keyId' | 'priority' | 'signal' | 'weight' | 'work'>;

export interface TurnQueueOptions {
  bound: {
    /** How many requests may wait. */
    length: number;
    /** For any time by default. */
    timeoutMs?: number | undefined;
    /** For the 429 of a full queue. */
    retryAfterSeconds(): number;
  };
}

export interface PreparationDependencies {
  createQueue<Slot>(options: TurnQueueOptions): TurnQueue<Slot>;
}

export interface PreparationModule {
  createChatPreparation(dependencies: PreparationDependencies): ChatPreparation;
}

/** Runs in the server process, before a request is sent to an engine process. Errors that clients may see are `ApiError`s. */
export interface ChatPreparation {
  prepare(request: ChatRequest, context: CallContext): Promise<ChatRequest>;
  close(): Promise<void>;
}

/** What computes a model: the processor, or GPUs through a backend such as `cuda`. */
export interface Accelerator {
  backend: string;
  /** Names of the GPUs. */
  names: readonly string[];
  /** Memory of all GPUs together. */
  memoryBytes: number;
}

export const PROCESSOR: Accelerator = { backend: 'cpu', names: [], memoryBytes: 0 };

export interface AcceleratorModule {
  createAccelerators(dependencies: AcceleratorDependencies): Accelerators;
}

/** Runs in the server process and in commands, so it loads no native code. */
export interface Accelerators {
  /** The best that works on this machine. It is tested once, and again after a change of driver or runtime. */
  choose(): Promise<Accelerator>;
  /** Tests every installed backend again. */
  test(): Promise<readonly TestedBackend[]>;
  /** Builds the runtime for a backend from source on this machine. Rejects with what is missing. */
  build(backend: string): Promise<void>;
  /** Builds the runtime's own server from the same source, as a program in `folder`. Resolves with its path. */
  buildServer(backend: string, folder: string): Promise<string>;
}

export type TestedBackend = { backend: string } & (
  | { works: true; accelerator: Accelerator }
  | { works: false; reason: string; remedy: string }
);

export interface AcceleratorDependencies {
  /** The driver's part of the section `engines`. */
  settings: Values;
  machine: MachineFacts;
  /** For child processes. */
  environment: Readonly<Record<string, string | undefined>>;
  logger: { info(facts: object, text: string): void; warn(facts: object, text: string): void };
}

/** What was found out about this machine, kept between starts. */
export interface MachineFacts {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
}

export interface MachineShape {
  cores: number;
  /** Fewer than `cores` where the processor runs two threads on one core. */
  physicalCores: number;
  /** For all engine processes. */
  memoryBytes: number;
  accelerator: Accelerator;
  /** Context length of the model, in tokens. */
  contextLength: number;
  directory: string;
  /** The fastest layout that a trial on this machine has found. */
  measured?: LayoutShape | undefined;
}

export interface LayoutShape {
  processes: number;
  /** Threads of each process. */
  threads: number;
}

/** Measures how fast a model is in several layouts. */
export interface LayoutTrials {
  /** A module with the exports of `LayoutTrialModule`. */
  readonly module: URL;
  /** The layouts to compare; less than two: there is nothing to find out. */
  candidates(engine: EngineSpec, settings: Values, machine: MachineShape): readonly LayoutShape[];
}

/** Loaded in the server process, so it does its work in processes of its own. */
export interface LayoutTrialModule {
  /** Identifies runtime and batch shape: a result holds until it changes. */
  fingerprint(): string;
  measure(options: LayoutTrialOptions): Promise<readonly MeasuredLayout[]>;
}

export interface LayoutTrialOptions {
  engine: EngineSpec;
  directory: string;
  candidates: readonly LayoutShape[];
  environment: Readonly<Record<string, string | undefined>>;
  /** Fires when the service stops. */
  signal: AbortSignal;
}

export interface MeasuredLayout extends LayoutShape {
  tokensPerSecond: number;
}

/** How a model is spread over the machine. */
export interface Layout extends LayoutShape {
  parallelSequences: number;
  /** Requests that may work at once; the others wait in the fair queue. */
  slots: number;
  /** How many of them one account may hold; all of them by default. */
  slotsPerAccount?: number;
}

export interface WeightFacts {
  /** The longest context that the model was made for. */
  contextLength?: number | undefined;
  /** Dimensions of its vectors. */
  dimensions?: number | undefined;
  /** It takes images beside texts. */
  images?: boolean | undefined;
  /** What the model was made for. */
  task?: EngineTask | undefined;
}

/** What can be read of weights before they are fetched. */
export interface WeightsPreview {
  /** The first bytes of the file of the weights. */
  beginning?: Buffer | undefined;
  /** Their config.json. */
  config?: Readonly<Record<string, unknown>> | undefined;
}

export interface MemoryFacts {
  /** Where the verified files are. */
  directory: string;
  layout: Layout;
  contextLength: number;
  /** The part of the model that is in the memory of GPUs, 0 to 1. */
  videoShare: number;
}

/** Everything a driver needs to load one model. Plain data: it crosses the process boundary. */
export interface LoadSpec<Options = Values> {
  /** Slug and version, for messages and logs. */
  slug: string;
  version: string;
  engine: EngineSpec<Options>;
  /** Absolute path of the directory that holds the verified files. */
  directory: string;
  contextLength: number;
  dimensions: number | null;
  maxOutputTokens: number | null;
  /** Compute threads for this process. */
  threads: number;
  /** Sequences a generating model decodes side by side. */
  parallelSequences: number;
  /** Backend of the accelerator, `cpu` for none. */
  backend: string;
}

/**
 * Runs inside the engine process, so it may use native code, block and crash. It never sees HTTP, the database or the
 * configuration. Failures that a client should see are thrown as `ApiError`.
 */
export interface DriverModule {
  load(spec: LoadSpec): Promise<EngineModel>;
}

/** A file of the model, by its name inside the model's directory. No part begins with a dot, so none is `..`. */
const NAME_PART = String.raw`[^./\\\u0000-\u001f][^/\\\u0000-\u001f]*`;
export const FILE_NAME = `^${NAME_PART}(/${NAME_PART})*$`;
export const fileName = Type.String({ pattern: FILE_NAME });

/** A setting that is 0 when it is chosen from the cores, or has a default of its own. */
export const count = (value: number, description: string, minimum = 0) =>
  Type.Integer({ minimum, default: value, description });

/** Encoders are fastest when they can batch many small requests, also those of one account. */
export const ENCODER_SLOTS = 64;

/** Slots where requests share a process: others need not wait for the end of a request of the account that holds its part. */
export const slotsWithRoom = (slotsPerAccount: number): Pick<Layout, 'slots' | 'slotsPerAccount'> => ({
  slots: Math.ceil((slotsPerAccount * 4) / 3),
  slotsPerAccount,
});

/** Memory of a process without weights: Node, the runtime and its libraries. */
export const PROCESS_BYTES = 96 * 1024 * 1024;

/** Files that are missing count as 0: not every model has all of them, and the driver reports those it needs. */
export async function totalFileBytes(directory: string, files: readonly string[]): Promise<number> {
  const sizes = await Promise.all(
    files.map((file) =>
      stat(join(directory, file)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
