import { describe, expect, it } from 'vitest';
import { createCallDecoder } from './call-decoder.ts';
import { CALL_ID, GENERIC_SYNTAX } from './call-syntax.ts';
import type { PromptPiece } from './chat-template.ts';
import { type CallPlan, openingGrammar, planCalls } from './tool-calls.ts';

const weather = { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } };
const time = { name: 'time' };

function plan(request: Parameters<typeof planCalls>[0]): CallPlan {
  const calls = planCalls(request);
  if (calls === undefined) throw new Error('No calls are planned');
  return calls;
}

function ids() {
  let count = 0;
  return () => `call_${++count}`;
}

describe('planCalls', () => {
  it('plans nothing without tools or with tool_choice none', () => {
    expect(planCalls({ tools: [weather], choice: 'none', parallel: true })).toBeUndefined();
    expect(planCalls({ tools: [], choice: undefined, parallel: true })).toBeUndefined();
  });

  it('forces the named function alone', () => {
    const calls = plan({ tools: [weather, time], choice: { name: 'time' }, parallel: true });
    expect(calls).toMatchObject({ forced: true, parallel: false, tools: [{ name: 'time' }] });
  });

  it('refuses a name that is not among the tools', () => {
    const wrong = () => planCalls({ tools: [time], choice: { name: 'other' }, parallel: true });
    expect(wrong).toThrow(expect.objectContaining({ code: 'invalid_parameter', param: 'tool_choice' }));
  });

  it('names the place of a parameter schema that cannot be enforced', () => {
    const tool = { name: 'x', parameters: { properties: { a: { not: {} } } } };
    const wrong = () => planCalls({ tools: [time, tool], choice: 'auto', parallel: true });
    expect(wrong).toThrow(expect.objectContaining({ param: 'tools[1].function.parameters.properties.a' }));
  });
});

const joined = (pieces: readonly PromptPiece[] | undefined) => pieces?.map((piece) => piece.text).join('');

const decoderFor = (request: Parameters<typeof planCalls>[0], syntax = GENERIC_SYNTAX) =>
  createCallDecoder({ plan: plan(request), syntax, callsBefore: 4, newId: ids() });

describe('openingGrammar', () => {
  const { tools } = plan({ tools: [weather, time], choice: 'auto', parallel: true });

  it('is the mark, or all up to the name where there is no mark', () => {
    expect(openingGrammar(tools, GENERIC_SYNTAX)).toBe('"<tool_call>"');
    expect(openingGrammar(tools, { ...GENERIC_SYNTAX, mark: undefined, open: '{"name": "' })).toBe(
      '"{\\"name\\": \\"" ("weather\\"" | "time\\"")',
    );
  });
});

describe('createCallDecoder', () => {
  it('streams id and name first, then the arguments in pieces', () => {
    const decoder = decoderFor({ tools: [weather], choice: 'required', parallel: false });
    expect(decoder.open('<tool_call>')).toEqual([
      { text: '\n{"name": "', literal: false },
      { text: 'weather', literal: true },
      { text: '", "arguments": ', literal: false },
    ]);
    expect(decoder.push('{"ci').events).toEqual([
      { type: 'tool-call-delta', index: 0, id: 'call_1', name: 'weather', argumentsDelta: '' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: '{"ci' },
    ]);
    expect(decoder.push('ty": "a}\\""').done).toBe(false);
    const last = decoder.push('}');
    expect(last).toEqual({ events: [{ type: 'tool-call-delta', index: 0, argumentsDelta: '}' }], done: true });
    expect(decoder.complete).toBe(true);
  });

  it('lets the model choose the name and whether to go on', () => {
    const decoder = decoderFor({ tools: [weather, time], choice: 'auto', parallel: true });
    expect(joined(decoder.open('<tool_call>'))).toBe('\n{"name": "');
    expect(decoder.grammar).toBe('root ::= "weather\\"" | "time\\""');
    expect(decoder.push('ti').insert).toBeUndefined();
    expect(joined(decoder.push('me"').insert)).toBe(', "arguments": ');
    expect(decoder.complete).toBe(false);
    expect(joined(decoder.push('{}').insert)).toBe('}\n</tool_call>');
    expect(decoder.complete).toBe(true);
    expect(decoder.grammar).toBe('root ::= "\\n"?');
    expect(joined(decoder.push('\n').insert)).toBe('<tool_call>\n{"name": "');
    decoder.push('weather"');
    expect(decoder.push('{"city": "Rome"}').events[0]).toMatchObject({ index: 1, id: 'call_2', name: 'weather' });
  });

  it('drops a call that repeats an earlier one and ends there', () => {
    const decoder = decoderFor({ tools: [weather], choice: 'auto', parallel: true });
    decoder.open('<tool_call>');
    decoder.push('{"city": "Rome"}');
    decoder.push('\n');
    expect(decoder.push('{"city": "Ro')).toEqual({ events: [], done: false });
    expect(decoder.push('me"}')).toEqual({ events: [], done: true });
    expect(decoder.complete).toBe(true);
  });

  it('counts the calls of the conversation where the syntax has an id', () => {
    const syntax = {
      ...GENERIC_SYNTAX,
      close: `, "id": "${CALL_ID}"}`,
      next: { choice: ',', rest: ` {"id": "${CALL_ID}", "name": "` },
      end: ']',
    };
    const decoder = decoderFor({ tools: [weather, time], choice: 'auto', parallel: true }, syntax);
    decoder.open('<tool_call>');
    decoder.push('time"');
    expect(joined(decoder.push('{}').insert)).toBe(', "id": "call00005"}');
    expect(decoder.grammar).toBe('root ::= "," | "]"');
    expect(joined(decoder.push(',').insert)).toBe(' {"id": "call00006", "name": "');
    decoder.push('weather"');
    expect(decoder.push('{}').events[0]).toMatchObject({ index: 1, id: 'call_2' });
    expect(decoder.push(']')).toEqual({ events: [], done: true });
    expect(decoder.complete).toBe(true);
  });

  it('ends after one call where the syntax knows no second', () => {
    const syntax = { ...GENERIC_SYNTAX, next: undefined };
    const decoder = decoderFor({ tools: [weather], choice: 'required', parallel: true }, syntax);
    decoder.open('');
    expect(decoder.push('{}').done).toBe(true);
  });

  it('takes up a call whose name the model has written', () => {
    const decoder = decoderFor({ tools: [weather, time], choice: 'auto', parallel: true });
    expect(joined(decoder.openNamed('time'))).toBe(', "arguments": ');
    expect(decoder.push('{}').events[0]).toMatchObject({ index: 0, name: 'time' });
  });
});
