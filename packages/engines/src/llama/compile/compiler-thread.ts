import { parentPort } from 'node:worker_threads';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { CompileOutcome, FromCompiler } from './compiler-worker.ts';
import { compileGrammars, type GrammarRequest } from './request-grammars.ts';

function compile(request: GrammarRequest): CompileOutcome {
  try {
    return { type: 'compiled', grammars: compileGrammars(request) };
  } catch (error) {
    if (error instanceof ApiError) return { type: 'refused', code: error.code, text: error.text, field: error.field };
    // The stack has overflowed.
    if (error instanceof RangeError) return { type: 'exhausted' };
    return { type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

const port = parentPort;
if (port === null) throw new Error('The compiler runs in a worker thread');
const send = (message: FromCompiler) => port.postMessage(message);
port.on('message', (request: GrammarRequest) => send(compile(request)));
send({ type: 'ready' });
