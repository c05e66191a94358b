import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { weights } from '../../models/weights.ts';
import { CACHE, type EngineUnderTest, type ServedModel, type Task } from './engine.ts';
import { llamaEnvironment } from './llama-server.ts';
import { runProgram, startProgram } from './process.ts';

const SCRIPTS = join(import.meta.dirname, '../python');
const BUILT = join(CACHE, 'ollama', 'bin', 'ollama');
/** Ollama's program is found by `BAOBAB_OLLAMA`, in the cache, or on the PATH. */
const PROGRAM = process.env.BAOBAB_OLLAMA ?? [BUILT].find(existsSync) ?? 'ollama';
const CONTEXT = 1_024;

/** What a program says that `go install` has built. */
const NO_VERSION = /\b0\.0\.0\b/;

async function moduleVersion(): Promise<string> {
  const facts = await runProgram('go', ['version', '-m', PROGRAM]);
  return /^\s*mod\s+\S+\s+v(\S+)/m.exec(facts)?.[1] ?? '0.0.0';
}

/** Go builds Ollama without the llama-server that it starts: a script takes its place. */
function writeRunner(python: string): void {
  const folder = join(CACHE, 'ollama', 'lib', 'ollama');
  mkdirSync(folder, { recursive: true });
  const script = `#!/bin/sh\nexec '${python}' '${join(SCRIPTS, 'ollama_llama_server.py')}' "$@"\n`;
  writeFileSync(join(folder, 'llama-server'), script, { mode: 0o755 });
}

export const ollama: EngineUnderTest = {
  name: 'ollama',
  kind: 'ollama',
  healthPath: '/api/version',
  async prepare() {
    const version = await runProgram(PROGRAM, ['--version'], { OLLAMA_HOST: '127.0.0.1:9' }).catch(() => {
      throw new Error('no ollama: set BAOBAB_OLLAMA to its path');
    });
    const folder = join(CACHE, 'ollama-models');
    mkdirSync(folder, { recursive: true });
    const environment = (port: number) => ({
      OLLAMA_HOST: `127.0.0.1:${port}`,
      OLLAMA_MODELS: folder,
      OLLAMA_CONTEXT_LENGTH: `${CONTEXT}`,
      HOME: folder,
    });
    const serve = (port: number, log: string) => startProgram(PROGRAM, ['serve'], join(CACHE, log), environment(port));

    const fileOf = async (slug: string) => join((await weights(slug)).directory, 'model.gguf');
    const chat = await fileOf('huggingfacetb/smollm2-135m-instruct');
    const coder = await fileOf('qwen/qwen2.5-coder-1.5b-instruct');
    const embedding = join(folder, 'with-pooling.gguf');
    const python = await llamaEnvironment();
    if (!existsSync(embedding)) await runProgram(python, [join(SCRIPTS, 'with_pooling.py'), chat, embedding]);
    if (PROGRAM === BUILT) writeRunner(python);
    const port = await freePort();
    const maker = serve(port, 'ollama-make.log');
    try {
      await maker.ready(`http://127.0.0.1:${port}/api/version`);
      for (const [name, file] of Object.entries({ smollm2: chat, 'smollm2-embedding': embedding, coder })) {
        const recipe = join(folder, 'Modelfile');
        // Threads of ggml spin: one is faster than two on a busy machine.
        writeFileSync(recipe, `FROM ${file}\nPARAMETER num_thread 1\n`);
        await runProgram(PROGRAM, ['create', name, '-f', recipe], environment(port));
      }
    } finally {
      await maker.kill();
    }
    const model = (task: Task, name: string, given: Partial<ServedModel> = {}): ServedModel => ({
      task,
      name,
      contextLength: CONTEXT,
      hasSense: task === 'chat',
      tools: 'no',
      start: (port) => serve(port, `ollama-${task}.log`),
      ...given,
    });
    return {
      version: NO_VERSION.test(version) ? await moduleVersion() : (/(\d[\w.-]*)/.exec(version)?.[1] ?? ''),
      models: [
        model('chat', 'smollm2'),
        model('chat', 'coder', { tools: 'only' }),
        model('embedding', 'smollm2-embedding', { dimensions: 576 }),
        // The tag gives it a name of its own here.
        model('embedding', 'smollm2:latest', { dimensions: 576, unfit: true }),
      ],
    };
  },
};
