/**
 * Checks which JSON schemas survive conversion to GBNF by our converter, node-llama-cpp's and llama.cpp's. The same independent walker
 * generates texts from each grammar, and Ajv checks them. A schema is "kept" if 40 random texts are valid, "wrong" if one is not.
 *
 *   node bench/schema-grammar.ts [--llama-cpp <path of json_schema_to_grammar.py>] [--random 300]
 */
import { execFileSync } from 'node:child_process';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { getLlama, LlamaJsonSchemaGrammar } from 'node-llama-cpp';
import { schemaGrammar } from '../src/engines/llama/grammar/schema-grammar.ts';
import { dice } from '../src/engines/llama/grammar/testing/dice.ts';
import { createGbnfWalk } from '../src/engines/llama/grammar/testing/gbnf-walk.ts';
import { randomSchema } from '../src/engines/llama/grammar/testing/random-schema.ts';
import { SCHEMAS } from './grammar/schemas.ts';

const { values } = parseArgs({
  options: { 'llama-cpp': { type: 'string' }, random: { type: 'string', default: '300' } },
});
const WALKS = 40;

type Schema = Record<string, unknown>;
type Convert = (schema: Schema) => string;

const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false });
const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false, logger: false });

const converters: Record<string, Convert> = {
  baobab: (schema) => schemaGrammar(schema, ['schema']),
  'node-llama-cpp': (schema) => new LlamaJsonSchemaGrammar(llama, schema as never).grammar,
};
const script = values['llama-cpp'];
if (script !== undefined) {
  converters['llama.cpp'] = (schema) =>
    execFileSync('python3', [script, '-'], {
      cwd: dirname(script),
      input: JSON.stringify(schema),
      encoding: 'utf8',
      stdio: ['pipe', 'pipe', 'ignore'],
    });
}

/** One rule per line, without comments, as the walker expects. */
function oneRuleALine(grammar: string): string {
  const rules: string[] = [];
  for (const line of grammar.split('\n').map((text) => text.trim())) {
    const start = /^([\w-]+)\s*::=\s*(.*)$/s.exec(line);
    if (start) rules.push(`${start[1]} ::= ${start[2]}`);
    else if (line !== '' && !line.startsWith('#')) rules.push(`${rules.pop()} ${line}`);
  }
  const character = (_: string, hex: string) => String.fromCharCode(Number.parseInt(hex, 16));
  return rules.join('\n').replace(/\\u([0-9a-fA-F]{4})/g, character);
}

function isValid(text: string, validate: (value: unknown) => boolean): boolean {
  try {
    return validate(JSON.parse(text));
  } catch {
    return false;
  }
}

async function verdict(schema: Schema, convert: Convert, seed: number): Promise<string> {
  let grammar: string;
  try {
    grammar = convert(schema);
  } catch {
    return 'refused';
  }
  try {
    await llama.createGrammar({ grammar });
  } catch {
    return 'unusable';
  }
  const validate = ajv.compile(schema);
  const walk = createGbnfWalk(oneRuleALine(grammar), dice(seed));
  return Array.from({ length: WALKS }, walk).every((text) => isValid(text, validate)) ? 'kept' : 'wrong';
}

const names = Object.keys(converters);
console.log(`| schema | ${names.join(' | ')} |\n|---|${'---|'.repeat(names.length)}`);
const random = fc.sample(randomSchema, { numRuns: Number(values.random), seed: 7 });
const totals = names.map(() => ({ kept: 0, refused: 0, wrong: 0, unusable: 0 }) as Record<string, number>);
for (const [name, schema] of Object.entries(SCHEMAS)) {
  const row = [];
  for (const convert of Object.values(converters)) row.push(await verdict(schema, convert, 1));
  console.log(`| ${name} | ${row.join(' | ')} |`);
}
for (const [seed, schema] of random.entries()) {
  for (const [at, convert] of Object.values(converters).entries()) {
    const counts = totals[at] ?? {};
    const found = await verdict(schema, convert, seed);
    counts[found] = (counts[found] ?? 0) + 1;
  }
}
console.log(`\n${random.length} random schemas:`);
for (const [at, name] of names.entries()) console.log(`${name}: ${JSON.stringify(totals[at])}`);
await llama.dispose();
