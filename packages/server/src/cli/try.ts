import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { localAddress } from './local-address.ts';
import { parseOptions } from './options.ts';

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: { message: string };
}

interface Server {
  address: string;
  key: string;
}

async function ask({ address, key }: Server, path: string, body?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  let response: Response;
  try {
    response = await fetch(`${address}/v1/${path}`, {
      headers,
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    });
  } catch (error) {
    const reason = systemReason(error instanceof Error && error.cause !== undefined ? error.cause : error);
    throw new CommandFailed(
      `no server answers at ${address}: ${reason}. 'baobab serve' starts one, --address names another`,
    );
  }
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as Chunk;
  throw new CommandFailed(error?.message ?? `${address} answered ${response.status}; check that it is a Baobab server`);
}

/** The list begins with the chat models that answer soonest. */
async function firstChat(server: Server): Promise<string> {
  const listed = await ask(server, 'models');
  const { data } = (await listed.json()) as { data: { id: string; modality?: string }[] };
  const chat = data.find(({ modality }) => modality === 'chat');
  if (chat !== undefined) return chat.id;
  throw new CommandFailed("this key may call no chat model here; 'baobab models list' shows the models");
}

export const tryCommand: Command = {
  forms: [['<question>', 'the answer of a chat model, as it is written']],
  options: [
    ['--model SLUG', 'chat model (default: the first that GET /v1/models lists)'],
    ['--address URL', "address of the server, without /v1 (default: host and port of this server's settings)"],
  ],
  notes: ['The variable BAOBAB_API_KEY has the key. It is billed as any request is.'],
  async run({ args, config, env, print, write, warn }) {
    const { values, positionals } = parseOptions(args, { model: { type: 'string' }, address: { type: 'string' } });
    const question = positionals.join(' ');
    if (question === '') throw new UsageError('what to ask is missing');
    const key = env.BAOBAB_API_KEY;
    if (!key) {
      throw new CommandFailed("BAOBAB_API_KEY is not set; 'baobab keys create <name>' prints a key for it");
    }
    const server = { address: (values.address ?? localAddress(config)).replace(/\/+$/, ''), key };
    const model = values.model ?? (await firstChat(server));
    const began = performance.now();
    const { body } = await ask(server, 'chat/completions', {
      model,
      messages: [{ role: 'user', content: question }],
      stream: true,
      stream_options: { include_usage: true },
    });
    let usage: Chunk['usage'];
    const lines = createInterface({ input: body === null ? Readable.from([]) : Readable.fromWeb(body) });
    for await (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      const chunk: Chunk = JSON.parse(line.slice('data: '.length));
      if (chunk.error !== undefined) throw new CommandFailed(chunk.error.message);
      write?.(chunk.choices?.[0]?.delta?.content ?? '');
      usage = chunk.usage ?? usage;
    }
    print('');
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    const tokens = usage && `, ${usage.prompt_tokens} tokens read and ${usage.completion_tokens} written`;
    warn?.(`${model}, ${seconds} s${tokens ?? ''}`);
  },
};
