/** The Agents SDK with its default API: a tool loop, a continued response and a stream. */
import assert from 'node:assert/strict';
import { Agent, run, setTracingDisabled, tool } from '@openai/agents';
import { z } from 'zod';

setTracingDisabled(true);
const commands = [];
const bash = tool({
  name: 'Bash',
  description: 'Run a command',
  parameters: z.object({ command: z.string(), description: z.string() }),
  execute: async ({ command }) => {
    commands.push(command);
    return 'done';
  },
});
const agent = new Agent({ name: 'Editor', model: process.env.MODEL, instructions: 'Edit files.', tools: [bash] });
const first = await run(agent, 'Change hello.txt');
assert.match(first.finalOutput, /edited/);
assert.equal(commands.length, 1);
const next = await run(agent, 'Thanks!', { previousResponseId: first.lastResponseId });
assert.ok(next.finalOutput);
const streamed = await run(agent, 'Change hello.txt', { stream: true });
let events = 0;
for await (const _event of streamed) events += 1;
assert.ok(events > 10);
assert.match(streamed.finalOutput, /edited/);
console.log(`a tool loop, a continued response and a stream of ${events} events`);
