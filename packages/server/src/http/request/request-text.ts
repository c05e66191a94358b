import { isInference } from '@baobab/core/domain/operations.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { RequestText } from '@baobab/core/ports/request-texts.ts';
import type { FastifyRequest } from 'fastify';

/** What the answers of the endpoints have in common with each other. Everything may be missing. */
interface Shapes {
  type?: string;
  text?: string;
  delta?: string | { text?: string; partial_json?: string };
  choices?: {
    text?: string;
    message?: { content?: string | null; tool_calls?: unknown[] };
    delta?: { content?: string | null; tool_calls?: { function?: { name?: string; arguments?: string } }[] };
  }[];
  output?: { type?: string; name?: string; arguments?: string; content?: { text?: string }[] }[];
  content?: { text?: string; name?: string; input?: unknown }[];
}

const lines = (parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n');

/** The text of a whole answer: chat, completions, responses, messages and transcriptions. Others have none. */
function wholeText(answer: Shapes): string {
  const { choices = [], output = [], content = [], text } = answer;
  if (typeof text === 'string') return text;
  return lines([
    ...choices.map(({ message, text: completion }) =>
      lines([message?.content ?? completion ?? '', ...(message?.tool_calls ?? []).map((call) => JSON.stringify(call))]),
    ),
    ...output.map((item) =>
      item.type === 'function_call'
        ? JSON.stringify({ name: item.name, arguments: item.arguments })
        : lines((item.content ?? []).map((part) => part.text ?? '')),
    ),
    ...content.map(
      (block) => block.text ?? (block.name ? JSON.stringify({ name: block.name, input: block.input }) : ''),
    ),
  ]);
}

/** The text that one event of a stream adds. */
function eventText({ type, delta, choices = [] }: Shapes): string {
  // Whole texts at the end of a stream repeat what was sent.
  if (typeof delta === 'string') return type === undefined || type.endsWith('.delta') ? delta : '';
  if (delta !== undefined) return delta.text ?? delta.partial_json ?? '';
  return choices
    .map(({ text, delta: part }) => {
      const calls = (part?.tool_calls ?? []).map(
        (call) => `${call.function?.name ?? ''}${call.function?.arguments ?? ''}`,
      );
      return (part?.content ?? text ?? '') + calls.join('');
    })
    .join('');
}

function parse(text: string): Shapes {
  try {
    return (JSON.parse(text) ?? {}) as Shapes;
  } catch {
    // Cut off, or an end mark such as [DONE].
    return {};
  }
}

/** The text in the body of an answer, or in the events of a stream; null if there is none. */
export function answerText(body: string, contentType: string): string | null {
  if (contentType.startsWith('text/plain') || contentType.startsWith('text/vtt')) return body || null;
  if (!contentType.startsWith('text/event-stream')) return wholeText(parse(body)) || null;
  const events = body.split('\n').filter((line) => line.startsWith('data:'));
  return events.map((line) => eventText(parse(line.slice(5)))).join('') || null;
}

/** Longest body of an answer; with the marks of a stream it is many times longer than its text. */
const MAX_BODY_CHARS = 2_097_152;
/** Longest text in a request: images and sounds are sent as text too. */
const MAX_PART_CHARS = 65_536;

/** Collects the body of an answer. */
export interface AnswerBody {
  contentType: string;
  pieces: string[];
  chars: number;
}

/** Whether the account of the caller keeps the text of this request. */
export function keepsText({ record }: FastifyRequest): boolean {
  return (
    record.principal?.account.storePrompts === true &&
    isInference(record.config.operation) &&
    record.config.operation !== 'embeddings.create'
  );
}

export function addToAnswer(request: FastifyRequest, contentType: string, text: string): void {
  const { record } = request;
  record.answer ??= { contentType, pieces: [], chars: 0 };
  record.answer.chars += text.length;
  if (record.answer.chars <= MAX_BODY_CHARS) record.answer.pieces.push(text);
}

/** The request as it was sent, with overlong parts cut. */
function promptOf(body: unknown): { prompt: string | null; truncated: boolean } {
  if (typeof body !== 'object' || body === null) return { prompt: null, truncated: false };
  let truncated = false;
  const prompt = JSON.stringify(body, (_name, value: unknown) => {
    if (typeof value !== 'string' || value.length <= MAX_PART_CHARS) return value;
    truncated = true;
    return value.slice(0, MAX_PART_CHARS);
  });
  return { prompt, truncated };
}

/** The text of a request that has ended, for accounts that keep it. */
export function textOf(request: FastifyRequest, { id, accountId, time }: RequestEntry): RequestText | undefined {
  const account = request.record.principal?.account;
  if (account?.storePrompts !== true) return undefined;
  const { answer } = request.record;
  const { prompt, truncated } = promptOf(request.body);
  return {
    requestId: id,
    accountId,
    time,
    prompt,
    answer: answer === undefined ? null : answerText(answer.pieces.join(''), answer.contentType),
    truncated: truncated || (answer?.chars ?? 0) > MAX_BODY_CHARS,
  };
}
