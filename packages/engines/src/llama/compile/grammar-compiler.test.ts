import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createFairQueue } from '../../../../server/src/admission/fair-queue.ts';
import { type CompilerWorker, startCompilerWorker } from './compiler-worker.ts';
import { createGrammarCompiler, type GrammarCompilerOptions } from './grammar-compiler.ts';
import { compileGrammars, type GrammarRequest } from './request-grammars.ts';

const ENDLESS = new URL('./testing/endless-thread.ts', import.meta.url);

const context = (accountId = 'a') => ({
  accountId,
  keyId: accountId,
  priority: 'interactive' as const,
  signal: new AbortController().signal,
});
const schema = (value: Record<string, unknown>): GrammarRequest => ({ format: { type: 'json_schema', schema: value } });
const tool = (parameters: Record<string, unknown>) => ({ name: 'act', parameters });

const open: { close(): Promise<void> }[] = [];
function compiler(options: Partial<GrammarCompilerOptions> = {}) {
  const created = createGrammarCompiler({ createQueue: createFairQueue, ...options });
  open.push(created);
  return created;
}

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

/** Workers that the test completes. */
function controlledWorkers() {
  const started: { answers: (() => void)[]; requests: GrammarRequest[] }[] = [];
  const startWorker = (): CompilerWorker => {
    const answers: (() => void)[] = [];
    const requests: GrammarRequest[] = [];
    started.push({ answers, requests });
    return {
      stopped: false,
      run(request) {
        requests.push(request);
        return new Promise((resolve) => {
          answers.push(() => resolve({ type: 'compiled', grammars: compileGrammars(request) }));
        });
      },
      stop: async () => {},
    };
  };
  return { started, startWorker };
}

describe('the grammar compiler', () => {
  it('compiles formats and tools in a thread', async () => {
    const request: GrammarRequest = {
      ...schema({ type: 'object', properties: { a: { type: 'integer' } } }),
      tools: [tool({ properties: { city: { type: 'string' } }, required: ['city'] })],
    };
    expect(await compiler().compile(request, context())).toEqual(compileGrammars(request));
  });

  it('refuses with the error of the schema', async () => {
    const refused = compiler();
    await expect(refused.compile(schema({ not: {} }), context())).rejects.toMatchObject({
      code: 'unsupported_parameter',
      param: 'format.schema',
    });
    const tools = [tool({}), tool({ properties: { x: { pattern: '^(a{1,99}){1,99}$' } } })];
    await expect(refused.compile({ tools }, context())).rejects.toMatchObject({
      status: 422,
      param: 'tools[1].parameters.properties.x',
      message: expect.stringContaining("'pattern'"),
    });
  });

  it('refuses large requests without a thread', async () => {
    const { started, startWorker } = controlledWorkers();
    const tools = Array.from({ length: 100 }, () => tool({ enum: new Array(1000).fill('value') }));
    await expect(compiler({ startWorker }).compile({ tools }, context())).rejects.toMatchObject({ status: 422 });
    expect(started).toEqual([]);
  });

  it('terminates a thread that takes too long and continues with another', async () => {
    const modules = [ENDLESS, undefined];
    const limited = compiler({
      threads: 1,
      timeLimitMs: 50,
      startWorker: (limit) => {
        const module = modules.shift();
        return module === undefined ? startCompilerWorker(10_000) : startCompilerWorker(limit, module);
      },
    });
    const [endless, waiting] = await Promise.allSettled([
      limited.compile(schema({ title: 'endless' }), context()),
      limited.compile(schema({ type: 'string' }), context('b')),
    ]);
    expect(endless).toMatchObject({ status: 'rejected', reason: { status: 422, param: 'format.schema' } });
    expect(waiting).toMatchObject({ status: 'fulfilled' });
  });

  it('compiles the same schemas once for each account', async () => {
    const { started, startWorker } = controlledWorkers();
    const remembering = compiler({ startWorker });
    const first = remembering.compile(schema({ type: 'string' }), context());
    await nextTurn();
    started[0]?.answers[0]?.();
    const grammars = await first;
    expect(await remembering.compile(schema({ type: 'string' }), context())).toEqual(grammars);
    expect(started[0]?.requests.length).toBe(1);
    const other = remembering.compile(schema({ type: 'string' }), context('b'));
    await nextTurn();
    expect(started[0]?.requests.length).toBe(2);
    started[0]?.answers[1]?.();
    expect(await other).toEqual(grammars);
  });

  it('lets accounts take turns', async () => {
    const { started, startWorker } = controlledWorkers();
    const fair = compiler({ threads: 1, startWorker });
    const all = [
      fair.compile(schema({ title: 'a0' }), context('a')),
      fair.compile(schema({ title: 'a1' }), context('a')),
      fair.compile(schema({ title: 'a2' }), context('a')),
      fair.compile(schema({ title: 'b0' }), context('b')),
    ];
    const [worker] = started;
    for (let done = 0; done < all.length; done++) {
      worker?.answers[done]?.();
      await nextTurn();
    }
    await Promise.all(all);
    const order = worker?.requests.map(({ format }) => format?.type === 'json_schema' && format.schema.title);
    expect(order?.indexOf('b0')).toBeLessThan(3);
  });
});
