import { isInference } from '@baobab/core/domain/operations.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { RequestText } from '@baobab/core/ports/request-texts.ts';
import type { FastifyRequest } from 'fastify';
import { answerText } from './answer-text.ts';

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
