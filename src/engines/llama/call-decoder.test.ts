import { describe, expect, it } from 'vitest';
import { createCallDecoder } from './call-decoder.ts';
import { type CallPlan, planCalls } from './tool-calls.ts';

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

describe('createCallDecoder', () => {
  it('streams id and name first, then the arguments in pieces', () => {
    const decoder = createCallDecoder(plan({ tools: [weather], choice: 'required', parallel: false }), ids());
    expect(decoder.open()).toEqual({ insert: '\n{"name": "weather", "arguments": ' });
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
    const decoder = createCallDecoder(plan({ tools: [weather, time], choice: 'auto', parallel: true }), ids());
    expect(decoder.open().insert).toBe('\n{"name": "');
    expect(decoder.grammar).toBe('root ::= "weather\\"" | "time\\""');
    expect(decoder.push('ti').insert).toBeUndefined();
    expect(decoder.push('me"').insert).toBe(', "arguments": ');
    expect(decoder.complete).toBe(false);
    expect(decoder.push('{}').insert).toBe('}\n</tool_call>');
    expect(decoder.complete).toBe(true);
    expect(decoder.push('\n').insert).toBe('<tool_call>\n{"name": "');
    decoder.push('weather"');
    expect(decoder.push('{"city": "Rome"}').events[0]).toMatchObject({ index: 1, id: 'call_2', name: 'weather' });
  });

  it('drops a call that repeats an earlier one and ends there', () => {
    const decoder = createCallDecoder(plan({ tools: [weather], choice: 'auto', parallel: true }), ids());
    decoder.open();
    decoder.push('{"city": "Rome"}');
    decoder.push('\n');
    expect(decoder.push('{"city": "Ro')).toEqual({ events: [], done: false });
    expect(decoder.push('me"}')).toEqual({ events: [], done: true });
    expect(decoder.complete).toBe(true);
  });
});
