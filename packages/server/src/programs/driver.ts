import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { EngineSpec } from '@baobab/core/domain/model.ts';
import { type Accelerator, type Driver, fileName, PROCESSOR, totalFileBytes } from '@baobab/core/engine/driver.ts';
import { type Static, Type } from 'typebox';
import { UPSTREAM_KINDS } from '../upstreams/dialects/dialects.ts';
import { filesIn } from './command-line.ts';

const megabytes = Type.Optional(Type.Integer({ minimum: 1 }));
const fields = {
  kind: Type.Enum(UPSTREAM_KINDS),
  command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
  environment: Type.Optional(Type.Array(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*=' }))),
  weights: Type.Optional(fileName),
  name: Type.Optional(Type.String({ minLength: 1 })),
  maxConcurrency: Type.Optional(Type.Integer({ minimum: 1 })),
  memoryMb: megabytes,
  videoMemoryMb: megabytes,
  startTimeoutSeconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
};
const options = Type.Object(fields);
export type CommandOptions = Static<typeof options>;

const MB = 1024 * 1024;
/** For what a program computes beside its weights, and for its keys and values. */
const WEIGHTS_FACTOR = 1.2;
const PROGRAM_BYTES = 512 * MB;
/** As many as llama-server decodes side by side by default. */
const REQUESTS_AT_ONCE = 4;

export const filesOf = ({ options: { command, environment = [], weights } }: EngineSpec<CommandOptions>) => [
  ...new Set([...(weights === undefined ? [] : [weights]), ...[...command, ...environment].flatMap(filesIn)]),
];

const execute = promisify(execFile);

/** The GPUs of this machine, as NVIDIA's driver lists them. */
async function nvidiaGpus(): Promise<Accelerator> {
  const args = ['--query-gpu=memory.total,name', '--format=csv,noheader,nounits'];
  const { stdout } = await execute('nvidia-smi', args, { timeout: 10_000 }).catch(() => ({ stdout: '' }));
  const gpus = [...stdout.matchAll(/^(\d+), (.+)$/gm)];
  if (gpus.length === 0) return PROCESSOR;
  const memoryBytes = gpus.reduce((sum, [, mebibytes]) => sum + Number(mebibytes) * MB, 0);
  return { backend: 'cuda', names: gpus.map(([, , name = '']) => name), memoryBytes };
}

/** Other engines, such as llama-server or vLLM: the server starts the command of the catalog entry and sends it requests over HTTP. */
export const command = {
  name: 'command',
  mustBeNamed: true,
  tasks: { chat: fields, embedding: fields, 'cross-encoder': fields, transcription: fields },
  settings: {},
  local: {
    recognise(fileNames) {
      const [weights, ...more] = fileNames.filter((name) => name.endsWith('.gguf'));
      return weights === undefined || more.length > 0 ? {} : { weights };
    },
    files: filesOf,
    layout({ options: { maxConcurrency: slots = REQUESTS_AT_ONCE } }, _settings, { physicalCores }) {
      return { processes: 1, threads: physicalCores, parallelSequences: slots, slots };
    },
    accelerator: async ({ options: { videoMemoryMb } }) =>
      videoMemoryMb === undefined ? PROCESSOR : await nvidiaGpus(),
    async memoryBytes(engine, { directory }) {
      const { memoryMb } = engine.options;
      if (memoryMb !== undefined) return memoryMb * MB;
      const known = filesOf(engine);
      const files = known.length > 0 ? known : await readdir(directory, { recursive: true });
      return (await totalFileBytes(directory, files)) * WEIGHTS_FACTOR + PROGRAM_BYTES;
    },
    videoBytes: async ({ options: { videoMemoryMb = 0 } }) => videoMemoryMb * MB,
  },
} satisfies Driver<CommandOptions>;
