import { texts } from '../texts/en/texts.ts';
import type { List } from './types.ts';

/** A request that did not succeed. A status of 0 means that no answer came. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly param: string | undefined;
  readonly requestId: string | undefined;

  constructor(status: number, message: string, more: { code?: string; param?: string; requestId?: string } = {}) {
    super(message);
    this.status = status;
    this.code = more.code;
    this.param = more.param;
    this.requestId = more.requestId;
  }
}

/** The token that unsafe requests must carry. Kept in memory only, like everything about the session. */
let csrfToken: string | undefined;
let signedOut: () => void = () => {};

export function setCsrfToken(token: string | undefined): void {
  csrfToken = token;
}

/** Called when an answer says that the session has ended. */
export function onSignedOut(listener: () => void): void {
  signedOut = listener;
}

export function unsafeHeaders(): Record<string, string> {
  return csrfToken === undefined ? {} : { 'x-baobab-csrf': csrfToken };
}

export async function failureOf(response: Response): Promise<ApiFailure> {
  const body = (await response.json().catch(() => undefined)) as
    | { error?: { message?: string; code?: string; param?: string } }
    | undefined;
  const { message, code, param } = body?.error ?? {};
  const requestId = response.headers.get('x-request-id');
  return new ApiFailure(response.status, message ?? texts.errors.status(response.status), {
    ...(code ? { code } : {}),
    ...(param ? { param } : {}),
    ...(requestId ? { requestId } : {}),
  });
}

/** The key behind the session is gone, or its account is. */
export const endsSession = ({ status, code }: ApiFailure): boolean =>
  status === 401 || (status === 403 && (code === 'key_revoked' || code === 'account_suspended'));

export interface Call {
  method?: 'GET' | 'POST' | 'DELETE';
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  form?: FormData;
  signal?: AbortSignal;
  /** A 401 of this request does not end the session. */
  keepSession?: boolean;
}

export function address(path: string, query: Call['query'] = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return search === '' ? path : `${path}?${search}`;
}

/** Sends a request and returns the response if it succeeded. */
export async function send(path: string, { method = 'GET', query, body, form, signal, keepSession }: Call = {}) {
  const headers: Record<string, string> = method === 'GET' ? {} : unsafeHeaders();
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers,
      credentials: 'same-origin',
      ...(form ? { body: form } : body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiFailure(0, texts.errors.unreachable);
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (!keepSession && endsSession(failure)) signedOut();
  throw failure;
}

/** The beginning of an answer, about `most` characters. The rest, which may be hundreds of megabytes, is not fetched. */
export async function readStart(body: ReadableStream<Uint8Array>, most: number): Promise<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = '';
  while (text.length < most) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}

export async function call<T>(path: string, options: Call = {}): Promise<T> {
  const response = await send(path, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** In one answer; a longer list would hold up other requests of the server. */
const PAGE = 1_000;

/** A whole list, however many pages it has. */
export async function callPages<T>(path: string, options: Call = {}): Promise<List<T>> {
  const data: T[] = [];
  for (let after: string | undefined; ; ) {
    const page = await call<List<T>>(path, { ...options, query: { ...options.query, limit: PAGE, after } });
    data.push(...page.data);
    if (!page.has_more) return { data };
    after = page.last_id ?? undefined;
  }
}
