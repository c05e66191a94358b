/**
 * Runs all benchmarks, or the named ones, one after the other, each in its own process.
 *
 *   npm run bench                       npm run bench -- embeddings gateway                       npm run bench -- --quick
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

interface Benchmark {
  about: string;
  quick: string[];
}

const BENCHMARKS: Record<string, Benchmark> = {
  embeddings: { about: 'embeddings over HTTP against the raw runtime and transformers.js', quick: ['--quick'] },
  chat: { about: 'chat over HTTP against node-llama-cpp', quick: ['--quick'] },
  seeds: { about: 'chat with a seed against chat without one', quick: ['--quick'] },
  gateway: { about: 'what the service adds in front of an engine', quick: ['--quick'] },
  answers: { about: 'processor time of a whole answer', quick: ['--quick'] },
  replicas: { about: 'workers, PostgreSQL and Redis, beside other gateways', quick: ['--quick'] },
  streams: { about: 'a chunk of a streamed chat on its way from an upstream', quick: ['--quick'] },
  'noisy-neighbour': { about: 'two tenants while a third attacks', quick: ['--quick'] },
  growth: {
    about: 'a store with 100 000 accounts and a catalog of 2 000 models beside small ones',
    quick: ['--quick'],
  },
  batches: { about: 'batch lines against single requests', quick: ['--lines', '2000', '--turns', '1'] },
  transcription: { about: 'whisper against transformers.js', quick: ['--models', 'tiny', '--rounds', '1'] },
};

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !Object.hasOwn(BENCHMARKS, name));
if (values.help || unknown.length > 0) {
  if (unknown.length > 0) console.error(`Unknown benchmark '${unknown.join("', '")}'. Available:`);
  for (const [name, { about }] of Object.entries(BENCHMARKS)) console.log(`  ${name.padEnd(18)} ${about}`);
  process.exit(values.help ? 0 : 2);
}

for (const [name, { quick }] of Object.entries(BENCHMARKS)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  console.log(`\n== ${name} ==`);
  const script = join(import.meta.dirname, `${name}.ts`);
  const child = spawn(process.execPath, [script, ...(values.quick ? quick : [])], {
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) process.exitCode = 1;
}
