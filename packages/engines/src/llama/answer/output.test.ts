import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { createChatTemplate } from '../prompt/chat-template.ts';
import { callForms } from '../tools/call-form.ts';
import { type CallSyntax, GENERIC_SYNTAX } from '../tools/call-syntax.ts';
import {
  CONTROL_TEXTS,
  DEEPSEEK,
  END_TEXTS,
  GLM,
  GRANITE,
  HERMES,
  LLAMA_3,
  MINIMAX,
  MISTRAL_LIST,
  MISTRAL_MARKS,
  QWEN_CODER,
} from '../tools/testing/tool-templates.ts';
import { planCalls } from '../tools/tool-calls.ts';
import { createOutput } from './output.ts';

const tools = [
  { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  { name: 'time' },
];

const syntaxOf = (source: string): CallSyntax =>
  createChatTemplate({
    source,
    bosToken: '<s>',
    eosToken: '</s>',
    controlTexts: CONTROL_TEXTS,
    endTexts: END_TEXTS,
  }).render({
    messages: [{ role: 'user', content: 'x' }],
    tools,
  }).syntax;

interface Run {
  syntax: CallSyntax;
  choice?: 'auto' | 'required';
  stop?: readonly string[];
  acceptWholeCalls?: boolean;
}

/** Feeds tokens and shows what a client and what the model saw. Control tokens are written as `{ control }`. */
function write(
  tokens: readonly (string | { control: string })[],
  { syntax, choice = 'auto', stop, acceptWholeCalls = true }: Run,
) {
  let count = 0;
  const plan = planCalls({ tools, choice, parallel: true });
  const forms = plan && callForms(plan.tools, syntax);
  const output = createOutput({
    stop,
    calls: plan && forms && { ...plan, forms },
    syntax,
    callsBefore: 0,
    dropLeadingSpace: false,
    acceptWholeCalls,
    newCallId: () => `id_${++count}`,
  });
  let context = output.lead.map((part) => part.text).join('');
  const events: ChatEvent[] = [];
  let done = false;
  for (const token of tokens) {
    if (done) throw new Error('Generation is over');
    const control = typeof token === 'string' ? undefined : token.control;
    const own = typeof token === 'string' ? token : token.control;
    // Under a grammar a control token is its text; otherwise it is nothing.
    const seen = control !== undefined && output.callGrammar === undefined ? '' : own;
    const step = output.push({ bytes: new TextEncoder().encode(seen), control });
    events.push(...step.events);
    context += (step.kept ?? own) + (step.insert ?? []).map((part) => part.text).join('');
    done = step.done;
  }
  events.push(...output.finish());
  const text = events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
  const written: { id?: string; name?: string; arguments: string }[] = [];
  for (const event of events) {
    if (event.type !== 'tool-call-delta') continue;
    const { type: _, index, argumentsDelta, ...head } = event;
    const before = written[index];
    written[index] = { ...before, ...head, arguments: (before?.arguments ?? '') + argumentsDelta };
  }
  return { text, calls: written, context, done, complete: output.callsComplete };
}

const ROME = '{"city": "Rome"}';
const both = [
  { id: 'id_1', name: 'weather', arguments: ROME },
  { id: 'id_2', name: 'time', arguments: '{}' },
];

describe('createOutput', () => {
  it.each([
    {
      family: 'tags',
      source: HERMES,
      tokens: ['I look. <to', 'ol_call', '>\n\n', 'weather"', '{"city"', ': "Rome"}', '\n', 'ti', 'me"', '{}'],
      text: 'I look. ',
      context: `<tool_call>\n{"name": "weather", "arguments": ${ROME}}\n</tool_call>\n<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>`,
    },
    {
      family: 'a list after a control token',
      source: GRANITE,
      tokens: [{ control: '<|tool_call|>' }, 'wea', 'ther"', ROME, ',', 'time"', '{', '}', ']'],
      text: '',
      context: `<|tool_call|>[{"name":"weather","arguments":${ROME}},{"name":"time","arguments":{}}]`,
    },
    {
      family: 'a list with ids',
      source: MISTRAL_LIST,
      tokens: ['Wait.', { control: '[TOOL_CALLS]' }, 'weather"', ROME, ',', 'time"', '{}', ']'],
      text: 'Wait.',
      context: `[TOOL_CALLS][{"name": "weather", "arguments": ${ROME}, "id": "call00001"}, {"name": "time", "arguments": {}, "id": "call00002"}]`,
    },
    {
      family: 'a mark before each call',
      source: MISTRAL_MARKS,
      tokens: [
        { control: '[TOOL_CALLS]' },
        'weather',
        { control: '[CALL_ID]' },
        ROME,
        { control: '[TOOL_CALLS]' },
        'time',
        { control: '[CALL_ID]' },
        '{}',
      ],
      text: '',
      context: `[TOOL_CALLS]weather[CALL_ID]call00001[ARGS]${ROME}[TOOL_CALLS]time[CALL_ID]call00002[ARGS]{}`,
    },
    {
      family: 'control tokens around each call',
      source: DEEPSEEK,
      tokens: [
        'Hm.</think>',
        { control: '<|calls_begin|>' },
        'weather\n',
        ROME,
        { control: '<|call_begin|>' },
        'time\n',
        '{}',
        { control: '<|calls_end|>' },
      ],
      text: 'Hm.</think>',
      context: `<|calls_begin|><|call_begin|>function<|sep|>weather\n${ROME}<|call_end|><|call_begin|>function<|sep|>time\n{}<|call_end|><|calls_end|>`,
    },
    {
      family: 'tags around each argument',
      source: QWEN_CODER,
      tokens: [
        'I look. <tool',
        '_call>\n',
        'weather>\n<para',
        'meter=',
        'city>\n',
        'Ro',
        'me',
        '\n</',
        'parameter>\n</fun',
        'ction>',
        '\n',
        'time',
        '>\n</function>',
      ],
      text: 'I look. ',
      context:
        '<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=time>\n</function>\n</tool_call>',
    },
    {
      family: 'tags directly after the name',
      source: GLM,
      tokens: [
        'Hm.</think>',
        '<tool_call>',
        'weather',
        '<arg_key>',
        'city',
        '</arg_key>',
        '<arg_value>',
        'Rome</arg_value></tool_call>',
        '<tool_call>',
        'time</tool_',
        'call>',
      ],
      text: 'Hm.</think>',
      context:
        '<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call><tool_call>time</tool_call>',
    },
    {
      family: 'one pair of tags around all calls',
      source: MINIMAX,
      tokens: [
        '<m:calls>',
        'weather">\n<parameter name="',
        'city">Rome</parameter',
        '>\n</invoke>',
        '<invoke name="',
        'time">\n</invoke>',
        '</',
      ],
      text: '',
      context:
        '<m:calls>\n<invoke name="weather">\n<parameter name="city">Rome</parameter>\n</invoke>\n<invoke name="time">\n</invoke>\n</',
    },
  ])('reads calls written as $family', ({ source, tokens, text, context }) => {
    const answer = write(tokens, { syntax: syntaxOf(source) });
    expect(answer).toMatchObject({ text, calls: both, complete: true });
    expect(answer.context).toBe(text + context);
  });

  it.each([
    { tokens: ['{"name', '": "', 'time', '",', '{}'], context: '{"name": "time", "parameters": {}' },
    { tokens: ['\n', '{ "name":"time"', '{}'], context: '\n{ "name":"time", "parameters": {}' },
    {
      tokens: [{ control: '<|python_tag|>' }, '{"name": "time"', '{}'],
      context: '<|python_tag|>{"name": "time", "parameters": {}',
    },
  ])('reads bare JSON with any white space: $context', ({ tokens, context }) => {
    const answer = write(tokens, { syntax: syntaxOf(LLAMA_3) });
    expect(answer).toMatchObject({ text: '', calls: [{ name: 'time', arguments: '{}' }], done: true, complete: true });
    expect(answer.context).toBe(context);
  });

  it('sends bare JSON that is not a call, and JSON later in an answer, as text', () => {
    const syntax = syntaxOf(LLAMA_3);
    expect(write(['{"na', 'me": "ti', 'tle"}'], { syntax })).toMatchObject({ text: '{"name": "title"}', calls: [] });
    expect(write(['So: ', '{"name": "time"}'], { syntax })).toMatchObject({ text: 'So: {"name": "time"}', calls: [] });
    expect(write(['{"name": "ti'], { syntax })).toMatchObject({ text: '{"name": "ti', calls: [], complete: false });
  });

  it('begins a forced call for the model', () => {
    const forced = (source: string) => write([], { syntax: syntaxOf(source), choice: 'required' }).context;
    expect(forced(LLAMA_3)).toBe('{"name": "');
    expect(forced(GRANITE)).toBe('<|tool_call|>[{"name":"');
    expect(forced(MISTRAL_MARKS)).toBe('[TOOL_CALLS]');
    expect(forced(GLM)).toBe('</think><tool_call>');
  });

  it('sends what was held back for a stop sequence before a call', () => {
    const run = { syntax: syntaxOf(MISTRAL_LIST), stop: ['END'] };
    expect(write(['The EN', { control: '[TOOL_CALLS]' }], run)).toMatchObject({ text: 'The EN', complete: false });
    expect(write(['The EN', 'D of'], run)).toMatchObject({ text: 'The ', done: true });
  });

  it('recognises a control token only as a mark', () => {
    const answer = write([{ control: '<|other|>' }, 'Hi'], { syntax: syntaxOf(MISTRAL_LIST) });
    expect(answer).toMatchObject({ text: 'Hi', calls: [], done: false });
    expect(GENERIC_SYNTAX).toEqual(syntaxOf(HERMES));
  });
});

describe('an answer that is nothing but a call', () => {
  const syntax = syntaxOf(HERMES);
  const json = `{"name": "weather", "arguments": ${ROME}}`;
  const characters = (text: string) => [...text];

  it.each([
    ['bare JSON', json],
    ['white space around it', `\n ${json} \n`],
    ['a fence with a language', `\`\`\`json\n${json}\n\`\`\``],
    ['a fence without one', `\`\`\`\n${json}\n\`\`\`\n`],
    ['other spaces', `{ "name":"weather" ,\n  "arguments" : ${ROME}\n}`],
    ['double braces, as the template of Qwen2.5-Coder shows them', `{${json}}`],
    ['double braces in a fence', `\`\`\`json\n{${json}}\n\`\`\``],
    ['double braces around the arguments too', `{{"name": "weather", "arguments": {${ROME}}}}`],
  ])('is a call: %s', (_, answer) => {
    for (const tokens of [[answer], characters(answer)]) {
      const written = write(tokens, { syntax });
      expect(written).toMatchObject({
        text: '',
        calls: [{ id: 'id_1', name: 'weather', arguments: ROME }],
        complete: true,
      });
    }
  });

  it('is a call in a fence for models whose own calls are bare JSON', () => {
    const written = write(characters(`\`\`\`json\n${json}\n\`\`\``), { syntax: syntaxOf(LLAMA_3) });
    expect(written).toMatchObject({ text: '', calls: [{ name: 'weather' }], complete: true });
  });

  it.each([
    ['of another tool', '{"name": "other", "arguments": {}}'],
    ['without arguments', '{"name": "weather"}'],
    ['with other arguments', '{"name": "weather", "arguments": "Rome"}'],
    ['with more members', `{"name": "weather", "arguments": ${ROME}, "id": 1}`],
    ['that is not finished', `{"name": "weather", "arguments": {"city": "Ro`],
    ['whose JSON is broken', '{"name": "weather", "arguments": {"city": Rome}}'],
    ['before other text', `${json} That is all.`],
    ['after other text', `I call ${json}`],
    ['in a fence that stays open', `\`\`\`json\n${json}\n`],
    ['before another one', `${json}\n${json}`],
    ['with two braces before it and one after it', `{${json}`],
    ['that is code', '```python\nprint({"name": "weather"})\n```'],
  ])('stays text: a call %s', (_, answer) => {
    for (const tokens of [[answer], characters(answer)]) {
      expect(write(tokens, { syntax })).toMatchObject({ text: answer, calls: [], complete: false });
    }
  });

  it('is sent as soon as it cannot be a call any more', () => {
    const plan = planCalls({ tools, choice: 'auto', parallel: true });
    const forms = (plan && callForms(plan.tools, syntax)) ?? [];
    const output = createOutput({
      stop: undefined,
      calls: { forced: false, parallel: true, forms },
      syntax,
      callsBefore: 0,
      dropLeadingSpace: false,
      acceptWholeCalls: true,
      newCallId: () => 'id',
    });
    const push = (text: string) => output.push({ bytes: new TextEncoder().encode(text) }).events;
    expect(push('{"name": "wea')).toEqual([]);
    expect(push('ry"')).toEqual([{ type: 'text-delta', text: '{"name": "weary"' }]);
    expect(push('}')).toEqual([{ type: 'text-delta', text: '}' }]);
  });

  it('is text where the client asked for a format', () => {
    expect(write([json], { syntax, acceptWholeCalls: false })).toMatchObject({ text: json, calls: [] });
  });

  it('ends at a stop sequence as text', () => {
    expect(write(['{"name": "weather", "arguments": {"city": "R', 'STOP'], { syntax, stop: ['STOP'] })).toMatchObject({
      text: '{"name": "weather", "arguments": {"city": "R',
      calls: [],
      done: true,
    });
  });

  it('may be followed by a call in the form of the template instead', () => {
    const tokens = ['```', 'text\n', '```\n', '<tool_call>', 'time"', '{}'];
    expect(write(tokens, { syntax })).toMatchObject({ text: '```text\n```\n', calls: [{ name: 'time' }] });
  });
});
