import OpenAI from 'openai';
import { afterEach, beforeAll } from 'vitest';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { openAccount, type SharedAccount } from './shared-account.ts';

/** A small model: these tests check how it answers, not what it knows. */
export const MODEL = 'huggingfacetb/smollm2-135m-instruct';
export const question = [{ role: 'user' as const, content: 'What is gravity?' }];
export const short = { model: MODEL, messages: question, temperature: 0, max_tokens: 8 };

export const textOf = (answer: OpenAI.ChatCompletion) => answer.choices[0]?.message.content ?? '';

export interface SmallChat {
  server: SharedAccount;
  client: OpenAI;
  /** The answer to `short`, which others are compared with. */
  plain: OpenAI.ChatCompletion & { _request_id?: string | null };
}

type ChatRequest = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;

/** Chats through the openai package in an account of its own. Every answer must match the official schemas. */
export function useSmallChat(onOpened: (chat: SmallChat) => void): {
  refusal(body: ChatRequest): Promise<InstanceType<typeof OpenAI.APIError>>;
} {
  const recorded = recordingFetch();
  let client: OpenAI;

  beforeAll(async () => {
    const server = await openAccount();
    const baseURL = `${server.address}/v1`;
    client = new OpenAI({ baseURL, apiKey: server.apiKey, fetch: recorded.fetch, maxRetries: 0 });
    onOpened({ server, client, plain: await client.chat.completions.create(short) });
  });
  afterEach(() => {
    recorded.check();
  });

  return {
    async refusal(body) {
      const error = await client.chat.completions.create({ ...short, ...body }).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (!(error instanceof OpenAI.APIError)) throw new Error('it was not refused');
      return error;
    },
  };
}
