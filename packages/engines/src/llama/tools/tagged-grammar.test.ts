import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dice } from '../grammar/testing/dice.ts';
import { createGbnfWalk } from '../grammar/testing/gbnf-walk.ts';
import { randomSchema } from '../grammar/testing/random-schema.ts';
import { createChatTemplate } from '../prompt/chat-template.ts';
import { type CallForm, callForms } from './call-form.ts';
import type { CallSyntax } from './call-syntax.ts';
import { CONTROL_TEXTS, END_TEXTS, GLM, MINIMAX, QWEN_CODER } from './testing/tool-templates.ts';
import { planCalls } from './tool-calls.ts';

const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false, logger: false });

const template = (source: string) =>
  createChatTemplate({ source, bosToken: '', eosToken: '', controlTexts: CONTROL_TEXTS, endTexts: END_TEXTS });

const syntaxOf = (source: string): CallSyntax =>
  template(source).render({ messages: [{ role: 'user', content: 'x' }], tools: [{ name: 'x' }] }).syntax;

function formOf(parameters: Record<string, unknown>, syntax: CallSyntax): CallForm | undefined {
  const plan = planCalls({ tools: [{ name: 'act', parameters }], choice: 'required', parallel: false });
  return plan && callForms(plan.tools, syntax)?.[0];
}

/** A text of the grammar, read in chunks of random length. */
function write({ grammar, createReader }: CallForm, random: () => number) {
  const text = createGbnfWalk(grammar, random)();
  // As a decoder of UTF-8 does: whole characters only.
  const characters = Array.from(text);
  const reader = createReader();
  let json = '';
  let done = false;
  for (let at = 0; at < characters.length; ) {
    if (done) throw new Error(`Over before ${JSON.stringify(characters.slice(at).join(''))}`);
    const chunk = characters.slice(at, at + 1 + Math.floor(random() * 6));
    const read = reader.read(chunk.join(''));
    json += read.json;
    done = read.done;
    at += chunk.length;
  }
  if (!done) throw new Error(`Not over after ${JSON.stringify(text)}`);
  return { text, json };
}

const sources = { QWEN_CODER, GLM, MINIMAX };
const syntaxes = Object.values(sources).map(syntaxOf);

const property = (schema: object) => ({ type: 'object', properties: { x: schema }, required: ['x'] });

describe('arguments between tags', () => {
  it('are valid for random schemas, or left to JSON', () => {
    let tagged = 0;
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('id', 'name', 'next', 'value', 'x-1', '日本'), randomSchema, { maxKeys: 4 }),
        fc.nat(),
        (schemas, seed) => {
          const random = dice(seed);
          const names = Object.keys(schemas);
          const [{ $defs } = { $defs: {} }] = Object.values(schemas);
          const parameters = {
            type: 'object',
            properties: schemas,
            required: names.filter(() => random() < 0.5),
            additionalProperties: false,
            $defs,
          };
          const validate = ajv.compile(parameters);
          const form = formOf(parameters, syntaxes[seed % syntaxes.length] ?? syntaxOf(GLM));
          if (!form || names.length === 0) return;
          tagged++;
          for (let count = 0; count < 5; count++) {
            const { text, json } = write(form, random);
            if (!validate(JSON.parse(json))) throw new Error(`${text} → ${json}: ${ajv.errorsText(validate.errors)}`);
            expect(Object.keys(JSON.parse(json))).toEqual(names.filter((name) => name in JSON.parse(json)));
          }
        },
      ),
      { numRuns: 250 },
    );
    expect(tagged).toBeGreaterThan(100);
  });

  it.each(Object.entries(sources))('read the same as the template of %s prints them', (_, source) => {
    const values = fc.record({
      text: fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replaceAll(/[<\p{Cc}]/gu, '')),
      lines: fc.constantFrom('a\nb', '\n\n', ' x ', '"\\n"', '< /parameter>', '<<//arg', 'null', ''),
      count: fc.integer(),
      flag: fc.boolean(),
      list: fc.array(fc.constantFrom('a', '</parameter>', '"', '\\', '<')),
      maybe: fc.option(fc.constantFrom('null!', 'nul', 'n', 'x')),
    });
    const properties = {
      text: { type: 'string' },
      lines: { type: 'string' },
      count: { type: 'integer' },
      flag: { type: 'boolean' },
      list: { type: 'array', items: { type: 'string' } },
      maybe: { type: ['string', 'null'] },
    };
    const tool = { name: 'act', parameters: { type: 'object', properties, required: Object.keys(properties) } };
    const chat = template(source);
    fc.assert(
      fc.property(values, fc.nat(), (value, seed) => {
        const call = { id: 'a', name: 'act', arguments: JSON.stringify(value) };
        const { parts, syntax } = chat.render({
          messages: [
            { role: 'user', content: 'x' },
            { role: 'assistant', content: '', toolCalls: [call] },
            { role: 'tool', content: 'y', toolCallId: 'a' },
          ],
          tools: [tool],
        });
        const form = formOf(tool.parameters, syntax);
        const [ending] = form?.endings ?? [];
        if (!form || !ending) throw new Error('The template does not fit');
        const shown = parts.map((part) => part.text).join('');
        const start = `act${ending.text}`;
        const random = dice(seed);
        const reader = form.createReader();
        let rest = shown.slice(shown.indexOf(start) + start.length);
        let json = '';
        for (let done = false; !done && rest !== ''; ) {
          const chunk = Array.from(rest)
            .slice(0, 1 + Math.floor(random() * 4))
            .join('');
          const read = reader.read(chunk);
          rest = rest.slice(chunk.length);
          json += read.json;
          ({ done } = read);
        }
        expect(JSON.parse(json)).toEqual(value);
      }),
      { numRuns: 200 },
    );
  });

  it('write optional keys in their order and required ones always', () => {
    const form = formOf(
      {
        type: 'object',
        properties: { a: { const: 1 }, b: { const: 'x' }, c: { const: null } },
        required: ['b'],
      },
      syntaxOf(QWEN_CODER),
    );
    expect(form?.endings).toEqual([{ text: '>\n<parameter=', insert: '' }]);
    const random = dice(3);
    const shapes = new Set(Array.from({ length: 200 }, () => form && write(form, random).json));
    expect(shapes).toEqual(
      new Set(['{"b": "x"}', '{"a": 1, "b": "x"}', '{"b": "x", "c": null}', '{"a": 1, "b": "x", "c": null}']),
    );
  });

  it('may be none where none is required', () => {
    const endings = (parameters: Record<string, unknown>) =>
      formOf(parameters, syntaxOf(GLM))?.endings.map(({ text, insert }) => [text, insert]);
    const keys = ['<arg_key>', ''];
    const none = ['</tool_call>', undefined];
    expect(endings({ properties: { a: { type: 'string' } } })).toEqual([keys, none]);
    expect(endings({ properties: {} })).toEqual([none]);
    expect(endings({ properties: { a: { type: 'string' } }, required: ['a'] })).toEqual([keys]);
  });

  it.each([
    ['a string that may be null', { type: ['string', 'null'] }],
    ['an optional string of pydantic', { anyOf: [{ type: 'string' }, { type: 'null' }] }],
    ['a reference', { $ref: '#/$defs/text' }],
    ['a bounded string', { type: 'string', minLength: 2, maxLength: 5 }],
    ['a format', { type: 'string', format: 'date' }],
    ['names', { enum: ['a', 'b'] }],
    ['a nested object', { type: 'object', properties: { a: { type: 'string', pattern: '^a$' } } }],
    ['a number or null', { type: ['number', 'null'] }],
  ])('hold %s', (_, schema) => {
    const parameters = { ...property(schema), $defs: { text: { type: 'string' } } };
    const validate = ajv.compile(parameters);
    const random = dice(5);
    for (const syntax of syntaxes) {
      const form = formOf(parameters, syntax);
      if (!form) throw new Error('It does not fit');
      for (let count = 0; count < 50; count++) {
        const { json } = write(form, random);
        expect(validate(JSON.parse(json)), json).toBe(true);
      }
    }
  });

  it.each([
    ['values that may be text or JSON', property({ type: ['string', 'number'] })],
    ['any value', property({})],
    ['a list of texts and numbers', property({ enum: ['a', 1] })],
    ['a pattern', property({ type: 'string', pattern: '^a$' })],
    ['a text with the end tag', property({ enum: ['</parameter>'] })],
    ['no declared properties', { type: 'object' }],
    ['a choice between objects', { anyOf: [{ properties: { a: { type: 'string' } } }] }],
    ['a least number of properties', { properties: { a: { type: 'string' } }, minProperties: 1 }],
    ['a required property without a declaration', { properties: {}, required: ['a'] }],
    ['a key that could be a tag', { properties: { 'a>b': { type: 'string' } } }],
  ])('leave %s to JSON', (_, parameters) => {
    expect(formOf(parameters, syntaxOf(QWEN_CODER))).toBeUndefined();
  });
});
