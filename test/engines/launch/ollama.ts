import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { weights } from '../../models/weights.ts';
import { CACHE, type EngineUnderTest, type ServedModel, type Task } from './engine.ts';
import { runProgram, startProgram } from './process.ts';

/** Ollama's program is found by `BAOBAB_OLLAMA`, in the cache, or on the PATH. */
const PROGRAM = process.env.BAOBAB_OLLAMA ?? [join(CACHE, 'ollama', 'ollama')].find(existsSync) ?? 'ollama';
const CONTEXT = 1_024;

/** What a program says that `go install` has built. */
const NO_VERSION = /\b0\.0\.0\b/;

async function moduleVersion(): Promise<string> {
  const facts = await runProgram('go', ['version', '-m', PROGRAM]);
  return /^\s*mod\s+\S+\s+v(\S+)/m.exec(facts)?.[1] ?? '0.0.0';
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

    const { directory } = await weights('huggingfacetb/smollm2-135m-instruct');
    const recipe = join(folder, 'Modelfile');
    // Threads of ggml spin: one is faster than two on a busy machine.
    writeFileSync(recipe, `FROM ${join(directory, 'model.gguf')}\nPARAMETER num_thread 1\n`);
    const port = await freePort();
    const maker = serve(port, 'ollama-make.log');
    try {
      await maker.ready(`http://127.0.0.1:${port}/api/version`);
      await runProgram(PROGRAM, ['create', 'smollm2', '-f', recipe], environment(port));
    } finally {
      await maker.kill();
    }
    const model = (task: Task, dimensions?: number): ServedModel => ({
      task,
      name: 'smollm2',
      contextLength: CONTEXT,
      hasSense: task === 'chat',
      tools: 'no',
      ...(dimensions === undefined ? {} : { dimensions }),
      start: (port) => serve(port, `ollama-${task}.log`),
    });
    return {
      version: NO_VERSION.test(version) ? await moduleVersion() : (/(\d[\w.-]*)/.exec(version)?.[1] ?? ''),
      models: [model('chat'), model('embedding', 576)],
    };
  },
};
