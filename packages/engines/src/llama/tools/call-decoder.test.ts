import { describe, expect, it } from 'vitest';
import type { PromptPart } from '../text/prompt-tokenizer.ts';
import { createCallDecoder } from './call-decoder.ts';
import { type CallForm, callForms, openingGrammar } from './call-form.ts';
import { CALL_ID, type CallSyntax, GENERIC_SYNTAX } from './call-syntax.ts';
import { type CallPlan, planCalls } from './tool-calls.ts';

const weather = { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } };
const time = { name: 'time' };

function plan(request: Parameters<typeof planCalls>[0]): CallPlan {
  const calls = planCalls(request);
  if (calls === undefined) throw new Error('No calls are planned');
  return calls;
}

function forms(tools: CallPlan['tools'], syntax: CallSyntax): CallForm[] {
  const found = callForms(tools, syntax);
  if (found === undefined) throw new Error('The syntax cannot hold these tools');
  return found;
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
    expect(wrong).toThrow(expect.objectContaining({ code: 'invalid_parameter', param: 'toolChoice' }));
  });

  it('names the place of a parameter schema that cannot be enforced', () => {
    const tool = { name: 'x', parameters: { properties: { a: { not: {} } } } };
    const wrong = () => planCalls({ tools: [time, tool], choice: 'auto', parallel: true });
    expect(wrong).toThrow(expect.objectContaining({ param: 'tools[1].parameters.properties.a' }));
  });
});

const joined = (parts: readonly PromptPart[] | undefined) => parts?.map((part) => part.text).join('');

const decoderFor = (request: Parameters<typeof planCalls>[0], syntax: CallSyntax = GENERIC_SYNTAX) => {
  const { tools, ...calls } = plan(request);
  return createCallDecoder({ ...calls, forms: forms(tools, syntax), syntax, callsBefore: 4, newId: ids() });
};

describe('openingGrammar', () => {
  const { tools } = plan({ tools: [weather, time], choice: 'auto', parallel: true });

  it('is the mark, or all up to the name where there is no mark', () => {
    const formed = forms(tools, GENERIC_SYNTAX);
    expect(openingGrammar(formed, GENERIC_SYNTAX)).toBe('"<tool_call>"');
    expect(openingGrammar(formed, { ...GENERIC_SYNTAX, mark: undefined, open: '{"name": "' })).toBe(
      '"{\\"name\\": \\"" ("weather\\"" | "time\\"")',
    );
  });
});

describe('createCallDecoder', () => {
  it('streams id and name first, then the arguments in parts', () => {
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

  it('lets the model choose the name and whether to continue', () => {
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

  it('ends after one call if the syntax has no second', () => {
    const syntax = { ...GENERIC_SYNTAX, next: undefined };
    const decoder = decoderFor({ tools: [weather], choice: 'required', parallel: true }, syntax);
    decoder.open('');
    expect(decoder.push('{}').done).toBe(true);
  });

  it('makes one forced call, unless the client asks for more or the model closes the list itself', () => {
    const list = { ...GENERIC_SYNTAX, end: ']' };
    const isDone = (
      parallel: boolean | undefined,
      choice: 'required' | 'auto',
      syntax: CallSyntax = GENERIC_SYNTAX,
    ) => {
      const decoder = decoderFor({ tools: [weather], choice, parallel }, syntax);
      decoder.open('');
      return decoder.push('{}').done;
    };
    expect(isDone(undefined, 'required')).toBe(true);
    expect([isDone(true, 'required'), isDone(undefined, 'auto'), isDone(undefined, 'required', list)]).toEqual([
      false,
      false,
      false,
    ]);
  });

  it('continues a call whose name the model has written', () => {
    const decoder = decoderFor({ tools: [weather, time], choice: 'auto', parallel: true });
    expect(joined(decoder.openNamed('time'))).toBe(', "arguments": ');
    expect(decoder.push('{}').events[0]).toMatchObject({ index: 0, name: 'time' });
  });

  const tagged: CallSyntax = {
    ...GENERIC_SYNTAX,
    open: '<tool_call>\n<function=',
    arguments: {
      kind: 'tagged',
      lead: '>\n',
      beforeKey: '<parameter=',
      beforeValue: '>\n',
      valueMargin: '\n',
      valueEnd: '</parameter>',
      afterValue: '\n',
      end: '</function>',
    },
    close: '\n</tool_call>',
    next: { choice: '\n', rest: '<tool_call>\n<function=' },
  };
  const note = {
    name: 'note',
    parameters: {
      type: 'object',
      properties: { text: { type: 'string' }, tag: { type: ['string', 'null'] }, size: { type: 'object' } },
      required: ['text'],
    },
  };

  it('streams text between tags as a JSON string, and holds back only what may be its end', () => {
    const decoder = decoderFor({ tools: [note], choice: 'required', parallel: false }, tagged);
    expect(joined(decoder.open(''))).toBe('<tool_call>\n<function=note>\n<parameter=');
    const deltas = (text: string) => decoder.push(text).events.map((event) => event.argumentsDelta);
    expect(deltas('te')).toEqual([]);
    expect(deltas('xt>\n"Hi"')).toEqual(['', '{"text": "\\"Hi\\"']);
    expect(deltas('\n')).toEqual([]);
    expect(deltas('\n</p')).toEqual(['\\n']);
    expect(deltas('>\\')).toEqual(['\\n</p>\\\\']);
    expect(deltas('\n</parameter')).toEqual([]);
    expect(deltas('>\n<parameter=tag>\nnu')).toEqual(['", "tag": ']);
    expect(deltas('ll\n</parameter>')).toEqual(['null']);
    expect(deltas('\n<parameter=size>\n{"a": "</parameter>"')).toEqual([', "size": {"a": "</parameter>"']);
    expect(deltas('}\n</parameter>\n')).toEqual(['}']);
    expect(decoder.complete).toBe(false);
    expect(decoder.push('</function>')).toMatchObject({ events: [{ argumentsDelta: '}' }], done: true });
    expect(decoder.complete).toBe(true);
  });

  it('lets the model choose name, keys and whether to continue between tags', () => {
    const decoder = decoderFor({ tools: [note, time], choice: 'auto', parallel: true }, tagged);
    expect(joined(decoder.open('<tool_call>'))).toBe('\n<function=');
    expect(decoder.grammar).toBe('root ::= "note>\\n<parameter=" | "time>\\n</function>"');
    const empty = decoder.push('time>\n</function>');
    expect(empty.events).toMatchObject([{ index: 0, name: 'time' }, { argumentsDelta: '{}' }]);
    expect(joined(empty.insert)).toBe('\n</tool_call>');
    expect(joined(decoder.push('\n').insert)).toBe('<tool_call>\n<function=');
    expect(joined(decoder.push('note>\n<parameter=').insert)).toBe('');
    expect(decoder.grammar).toContain('root ::= from-text');
    expect(decoder.push('text>\na</parameter>\n</function>').events.at(-1)).toMatchObject({
      index: 1,
      argumentsDelta: '{"text": "a"}',
    });
    decoder.push('\n');
    decoder.push('note>\n<parameter=');
    expect(decoder.push('text>\na\n</parameter>\n</function>')).toEqual({ events: [], done: true });
    expect(decoder.complete).toBe(true);
  });
});
