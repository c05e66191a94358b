import type { Attempt, Attempts } from './attempts.ts';

export interface Account {
  name: string;
  secret: string;
}

export interface Sent {
  /** For the report, such as `chat`. */
  kind: string;
  method?: string;
  path: string;
  json?: unknown;
  form?: FormData;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  bytes: Buffer;
  json<T>(): T;
}

export interface Caller {
  /** Undefined: it failed or was refused. */
  send(account: Account, sent: Sent): Promise<Answer | undefined>;
  /** Undefined: the stream did not end as it should. */
  stream(account: Account, sent: Sent): Promise<true | undefined>;
}

export interface CallerDependencies {
  address: string;
  attempts: Attempts;
}

/** Longer than any timeout of the server: a request that takes longer hangs. */
const TIMEOUT_MS = 90_000;

interface Usage {
  prompt_tokens?: number;
  completion_tokens?: number;
}

const codeOf = (text: string): string => {
  try {
    return (JSON.parse(text) as { error?: { code?: string } }).error?.code ?? '';
  } catch {
    return '';
  }
};

function connectionError(error: unknown): string {
  const { name, message, cause } = error as Error;
  const inner = cause as { code?: string; message?: string } | undefined;
  return name === 'TimeoutError' ? 'no answer in time' : (inner?.code ?? inner?.message ?? message);
}

export function createCaller({ address, attempts }: CallerDependencies): Caller {
  const begin = (account: Account, { kind }: Sent) => {
    const startMs = performance.now();
    return (outcome: Attempt['outcome'], reason: string, requestId?: string | null, usage: Usage = {}) =>
      attempts.add({
        account: account.name,
        kind,
        outcome,
        reason,
        requestId: requestId ?? undefined,
        promptTokens: usage.prompt_tokens ?? 0,
        completionTokens: usage.completion_tokens ?? 0,
        startMs,
        endMs: performance.now(),
      });
  };

  const open = (account: Account, { method = 'POST', path, json, form, headers }: Sent) =>
    fetch(`${address}${path}`, {
      method,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        authorization: `Bearer ${account.secret}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(form === undefined ? {} : { body: form }),
    });

  const refusalOf = (status: number) => (status < 500 ? 'refused' : 'failed');

  return {
    async send(account, sent) {
      const end = begin(account, sent);
      let requestId: string | null = null;
      try {
        const answer = await open(account, sent);
        requestId = answer.headers.get('x-request-id');
        const bytes = Buffer.from(await answer.arrayBuffer());
        if (!answer.ok) {
          end(refusalOf(answer.status), `${answer.status} ${codeOf(bytes.toString())}`, requestId);
          return undefined;
        }
        const json = <T>() => JSON.parse(bytes.toString()) as T;
        const isJson = answer.headers.get('content-type')?.startsWith('application/json');
        const usage =
          isJson && sent.json !== undefined ? (json<{ usage?: Usage | null }>().usage ?? undefined) : undefined;
        end('acknowledged', `${answer.status}`, requestId, usage);
        return { status: answer.status, headers: answer.headers, bytes, json };
      } catch (error) {
        end('failed', connectionError(error), requestId);
        return undefined;
      }
    },

    async stream(account, sent) {
      const end = begin(account, sent);
      let requestId: string | null = null;
      try {
        const answer = await open(account, sent);
        requestId = answer.headers.get('x-request-id');
        const text = await answer.text();
        if (!answer.ok) {
          end(refusalOf(answer.status), `${answer.status} ${codeOf(text)}`, requestId);
          return undefined;
        }
        const events = text.split('\n').filter((line) => line.startsWith('data: '));
        const parsed = events.filter((line) => line !== 'data: [DONE]').map((line) => JSON.parse(line.slice(6)));
        const usage = parsed.find((event) => event.usage !== undefined && event.usage !== null)?.usage;
        const failure = parsed.find((event) => event.error !== undefined)?.error;
        if (failure !== undefined || usage === undefined || events.at(-1) !== 'data: [DONE]') {
          end('failed', `cut stream ${failure?.code ?? ''}`, requestId);
          return undefined;
        }
        end('acknowledged', '200', requestId, usage);
        return true;
      } catch (error) {
        end('failed', `cut stream ${connectionError(error)}`, requestId);
        return undefined;
      }
    },
  };
}
