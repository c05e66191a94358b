import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ScriptedTurn, turnChunks } from '../fixtures/scripted-model.ts';

/** The file that programs are asked to edit, and what a right edit gives. */
export const TASK = {
  file: 'hello.txt',
  before: 'Hello\n',
  after: 'Hello Baobab\n',
  prompt: 'Change hello.txt so that it greets Baobab.',
};

/** A task that needs a file which fills every context, and whatever an agent makes of it. */
export const LONG_TASK = {
  file: 'notes.txt',
  content: 'A line of notes that says nothing about the task.\n'.repeat(4000),
  prompt: `Read notes.txt. ${TASK.prompt}`,
};
const SUMMARY = 'The notes were read. What remains: hello.txt must greet Baobab.';

interface Schema {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
}
interface ChatBody {
  messages: { role: string; content: unknown }[];
  tools?: { function: { name: string; parameters?: Schema } }[];
  tool_choice?: 'auto' | 'none' | 'required' | { function: { name: string } };
  response_format?: { json_schema?: { schema: Schema } };
}

/** A value that fits a schema. */
function sample(schema: Schema = {}): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, each]) => [name, sample(each)]));
    case 'array':
      return [sample(schema.items)];
    case 'integer':
    case 'number':
      return 1;
    case 'boolean':
      return true;
    default:
      return 'x';
  }
}

const EDIT = "sed -i 's/^Hello$/Hello Baobab/' hello.txt";
const PATCH = '*** Begin Patch\n*** Update File: hello.txt\n@@\n-Hello\n+Hello Baobab\n*** End Patch';
/** How each tool edits the file, in the order of preference. */
const EDITS: Readonly<Record<string, object>> = {
  apply_patch: { input: PATCH },
  exec_command: { cmd: EDIT },
  shell_command: { command: EDIT },
  shell: { command: ['bash', '-lc', EDIT] },
  Bash: { command: EDIT, description: 'Edit the file' },
  bash: { command: EDIT, description: 'Edit the file' },
  // Qwen Code refuses to edit with sed what it has not read.
  run_shell_command: {
    command: "printf 'Hello Baobab\\n' > hello.txt",
    description: 'Edit the file',
    is_background: false,
  },
  run_commands: { commands: [EDIT] },
};

function forcedTool({ tools = [], tool_choice: choice }: ChatBody) {
  if (choice === 'required') return tools[0]?.function;
  return typeof choice === 'object'
    ? tools.find((tool) => tool.function.name === choice.function.name)?.function
    : undefined;
}

/** What a strong model would do. */
function turnFor(body: ChatBody): ScriptedTurn {
  const forced = forcedTool(body);
  if (forced) return { calls: [{ name: forced.name, arguments: sample(forced.parameters) as object }] };
  const schema = body.response_format?.json_schema?.schema;
  if (schema) return { text: JSON.stringify(sample(schema)) };
  const names = new Set(body.tools?.map((tool) => tool.function.name));
  const said = JSON.stringify(body.messages);
  const isCompacted = said.includes(SUMMARY);
  if (said.includes(LONG_TASK.file) && !isCompacted) {
    if (!names.has('bash')) return { text: SUMMARY };
    const command = `tail -n +${body.messages.length} ${LONG_TASK.file}`;
    return { calls: [{ name: 'bash', arguments: { command, description: 'Read the notes' } }] };
  }
  if (body.messages.at(-1)?.role === 'tool')
    return { reasoning: 'The tool has answered.', text: 'Done: the file was edited.' };
  const users = body.messages.filter(({ role }) => role === 'user');
  const asked = isCompacted || JSON.stringify(users).includes(TASK.file);
  const tool = Object.keys(EDITS).find((name) => names.has(name));
  // aider has no tools: it reads edits from the text.
  if (asked && names.size === 0) return { text: `${TASK.file}\n\`\`\`\n${TASK.after}\`\`\`\n` };
  if (asked && tool) return { reasoning: 'I edit the file.', calls: [{ name: tool, arguments: EDITS[tool] ?? {} }] };
  const [weather] = (body.tools ?? []).filter((each) => each.function.name === 'get_weather');
  return weather
    ? { calls: [{ name: 'get_weather', arguments: { location: 'San Francisco, CA' } }] }
    : { text: 'OK, hello.' };
}

/** An upstream that acts as a strong model, so that agents go through their whole loop. A token is four characters. */
export async function startStrongModel({
  contextLength = Number.POSITIVE_INFINITY,
} = {}): Promise<AsyncDisposable & { url: string; refusals(): number }> {
  let refusals = 0;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const json = (text: string) => response.writeHead(200, { 'content-type': 'application/json' }).end(text);
    if (request.method === 'GET') return json('{"data":[]}');
    if (request.url === '/tokenize') return json('{"count":1234}');
    const text = Buffer.concat(chunks).toString();
    const promptTokens = Math.ceil(text.length / 4);
    if (promptTokens > contextLength) {
      refusals += 1;
      const message = `This model's maximum context length is ${contextLength} tokens. However, you requested 0 output tokens and your prompt contains ${promptTokens} input tokens, for a total of ${promptTokens} tokens.`;
      response.writeHead(400, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ error: { message, type: 'BadRequestError', code: 400 } }));
    }
    const events = turnChunks({ ...turnFor(JSON.parse(text)), promptTokens });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    return response.end(`${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    refusals: () => refusals,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
