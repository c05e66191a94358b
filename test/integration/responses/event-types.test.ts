import { afterAll, expect, it } from 'vitest';
import { answeringInHalves, type LiveEvent, liveEvents, responseId, rest, until } from '../../fixtures/live-events.ts';
import { officialEventTypes } from '../../fixtures/openai-schemas/official.ts';
import { checkStreamEvent } from '../../fixtures/openai-schemas/recording-fetch.ts';
import { answering, type ScriptedTurn } from '../../fixtures/scripted-model.ts';
import { CHAT, startHttpBed } from '../http/bed.ts';

/** Beginnings of the types that are never sent, and why. */
const NEVER: Readonly<Record<string, string>> = {
  'response.audio.': 'no model answers with speech',
  'response.code_interpreter_call': 'hosted tools are ignored',
  'response.file_search_call.': 'hosted tools are ignored',
  'response.image_generation_call.': 'hosted tools are ignored',
  'response.mcp_': 'hosted tools are ignored',
  'response.shell_call_': 'hosted tools are ignored',
  'response.web_search_call.': 'hosted tools are ignored',
  'response.output_text.annotation.': 'annotations come from hosted tools',
  'response.refusal.': 'engines report refusals as text',
};

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

const stream = async (body: object) =>
  liveEvents(await bed.post('/v1/responses', { model: CHAT, input: 'Hi', stream: true, ...body }));

async function streamOf(turn: ScriptedTurn, body: object = {}): Promise<LiveEvent[]> {
  bed.chat.script.push(answering(turn));
  return rest(await stream(body));
}

/** The stream of a background response that is deleted. */
async function deletedStream(): Promise<LiveEvent[]> {
  const { handler, go } = answeringInHalves({ text: 'one two three four' });
  bed.chat.script.push(handler);
  const events = await stream({ background: true });
  const seen = await until(events, 'response.output_text.delta');
  await bed.fetch(`/v1/responses/${responseId(seen)}`, { method: 'DELETE' });
  go();
  return [...seen, ...(await rest(events))];
}

it('sends every type of event that can occur here, each valid by the official schema', async () => {
  const tools = [
    { type: 'function', name: 'get_weather', parameters: { type: 'object' } },
    { type: 'custom', name: 'patch' },
  ];
  const calls = [
    { name: 'get_weather', arguments: { city: 'Nairobi' } },
    { name: 'patch', arguments: { input: '+ line' } },
  ];
  const seen = [
    ...(await streamOf({ reasoning: 'Hm, well.', text: 'Hello' }, { reasoning: { summary: 'auto' } })),
    ...(await streamOf({ calls }, { tools })),
    ...(await streamOf({ text: 'cut', finish: 'length' })),
    ...(await deletedStream()),
  ];
  bed.chat.script.push((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n', () => response.destroy());
  });
  seen.push(...(await rest(await stream({}))));
  for (const event of seen) checkStreamEvent(event);
  const types = new Set(seen.map(({ type }) => type));
  const isNever = (type: string) => Object.keys(NEVER).some((beginning) => type.startsWith(beginning));
  const official = officialEventTypes();
  expect(official.length).toBeGreaterThan(50);
  // A type that is new in the schema has to be sent, or to be listed above with a reason.
  expect(official.filter((type) => !isNever(type)).sort()).toEqual([...types].sort());
});
