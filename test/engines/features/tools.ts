import type { ServedModel } from '../launch/engine.ts';
import { chatBody, choiceOf, eventsOf, type Feature, jsonOf, must, NotSupported } from './feature.ts';

const CHAT = '/v1/chat/completions';
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 12 } },
  required: ['city'],
  additionalProperties: false,
};
const tool = (name: string, more: object = {}) => ({ type: 'function', function: { name, parameters, ...more } });
const weather = {
  messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
  tools: [tool('get_time'), tool('get_weather')],
  max_tokens: 60,
};
const feature = (name: string, check: Feature['check']): Feature => ({ name, task: 'chat', check });
const tools = (name: string, check: Feature['check']): Feature => ({
  name: `tools, ${name}`,
  task: 'chat',
  needsTools: true,
  async check(context) {
    if (context.model.tools === 'no') throw new NotSupported("the model's template knows no tools");
    return check(context);
  },
});

function argumentsOf(text: string): Record<string, unknown> {
  const value = JSON.parse(text);
  must(typeof value === 'object' && value !== null, `the arguments are ${text}`);
  return value;
}

/** Without `strict` an engine may leave the arguments to the model, and random weights write anything. */
function checkLoosely({ function: { arguments: text } }: { function: { arguments: string } }, model: ServedModel) {
  try {
    argumentsOf(text);
    return undefined;
  } catch (error) {
    if (model.hasSense) throw error;
    return 'a call; arguments are free without `strict`';
  }
}

export const toolFeatures: readonly Feature[] = [
  tools('auto', async ({ ask, model }) => {
    const choice = choiceOf(jsonOf(await ask(CHAT, chatBody(weather))));
    if (choice.message.tool_calls === undefined)
      return model.hasSense ? 'text, as the model chose' : 'text (random weights)';
    argumentsOf(choice.message.tool_calls[0]?.function.arguments ?? '');
    return undefined;
  }),
  tools('named', async ({ ask, model }) => {
    const tool_choice = { type: 'function', function: { name: 'get_weather' } };
    const { message } = choiceOf(jsonOf(await ask(CHAT, chatBody({ ...weather, tool_choice }))));
    const [call] = message.tool_calls ?? [];
    if (call === undefined) throw new NotSupported('no call');
    must(call.function.name === 'get_weather', `called ${call.function.name}`);
    return checkLoosely(call, model);
  }),
  tools('required', async ({ ask, model }) => {
    const { message } = choiceOf(jsonOf(await ask(CHAT, chatBody({ ...weather, tool_choice: 'required' }))));
    const [call] = message.tool_calls ?? [];
    if (call === undefined) throw new NotSupported('no call');
    return checkLoosely(call, model);
  }),
  tools('strict', async ({ ask, model }) => {
    const body = chatBody({ ...weather, tools: [tool('get_weather', { strict: true })], tool_choice: 'required' });
    const choice = choiceOf(jsonOf(await ask(CHAT, body)));
    const [call] = choice.message.tool_calls ?? [];
    if (call === undefined) throw new NotSupported('no call');
    // Random weights may write white space up to the limit.
    if (!model.hasSense && choice.finish_reason === 'length' && call.function.arguments.trim() === '{')
      return 'constrained';
    const given = argumentsOf(call.function.arguments);
    must(typeof given.city === 'string' && Object.keys(given).length === 1, `arguments ${call.function.arguments}`);
    return undefined;
  }),
  tools('streamed', async ({ ask }) => {
    const events = eventsOf(await ask(CHAT, chatBody({ ...weather, tool_choice: 'required', stream: true })));
    const reasons = events.flatMap(({ choices }) => choices.map(({ finish_reason }) => finish_reason));
    if (!JSON.stringify(events).includes('tool_calls')) throw new NotSupported('no call');
    must(reasons.includes('tool_calls') || reasons.includes('length'), `ended with ${reasons.at(-1)}`);
    return undefined;
  }),
  feature('`json_object`', async ({ ask }) => {
    const messages = [{ role: 'user', content: 'Give the capital of France as a JSON object.' }];
    const body = chatBody({ messages, max_tokens: 80, response_format: { type: 'json_object' } });
    const choice = choiceOf(jsonOf(await ask(CHAT, body)));
    const text = (choice.message.content ?? '').trim();
    must(text.startsWith('{'), `not an object: ${text.slice(0, 60)}`);
    if (choice.finish_reason === 'length') return 'constrained';
    argumentsOf(text);
    return undefined;
  }),
  feature('`json_schema`', async ({ ask }) => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 12 }, big: { type: 'boolean' } },
      required: ['city', 'big'],
      additionalProperties: false,
    };
    const response_format = { type: 'json_schema', json_schema: { name: 'city', schema, strict: true } };
    const choice = choiceOf(jsonOf(await ask(CHAT, chatBody({ response_format, max_tokens: 80 }))));
    must((choice.message.content ?? '').trimStart().startsWith('{'), 'not an object');
    if (choice.finish_reason === 'length') return 'constrained';
    const value = argumentsOf(choice.message.content ?? '');
    must(typeof value.big === 'boolean' && typeof value.city === 'string', 'does not fit the schema');
    return undefined;
  }),
];
