import { MODELS } from '../cluster/cluster.ts';
import type { Random } from '../random.ts';
import type { Account, Caller, Sent } from './caller.ts';

/** The engine reads the account and the time from the prompt. */
const promptOf = ({ name }: Account, random: Random): string =>
  `account=${name} sent=${performance.now().toFixed(3)} ${Array.from({ length: random.between(2, 20) }, () => 'word').join(' ')}`;

export const embeddingOf = (account: Account, random: Random, kind = 'embedding'): Sent => ({
  kind,
  path: '/v1/embeddings',
  json: { model: MODELS.embedding, input: promptOf(account, random) },
});

export const chatOf = (account: Account, random: Random, stream: boolean): Sent => ({
  kind: stream ? 'stream' : 'chat',
  path: '/v1/chat/completions',
  json: {
    model: MODELS.chat,
    messages: [{ role: 'user', content: promptOf(account, random) }],
    max_tokens: random.between(4, 24),
    ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
  },
});

/** One lane sends one request after another. */
export const inferenceLanes = (caller: Caller, random: Random) => ({
  embedding: (account: Account) => caller.send(account, embeddingOf(account, random)),
  chat: (account: Account) => caller.send(account, chatOf(account, random, false)),
  stream: (account: Account) => caller.stream(account, chatOf(account, random, true)),
});
