import type { UpstreamKind } from '../../../packages/server/src/upstreams/dialects/dialects.ts';
import type { ServedModel, Task } from '../launch/engine.ts';
import type { RunningProcess } from '../launch/process.ts';
import { type Answer, MODEL, type TestService } from '../service.ts';

export interface FeatureContext {
  service: TestService;
  model: ServedModel;
  kind: UpstreamKind;
  /** Address of the engine itself, without /v1. */
  engineAddress: string;
  /** Asks Baobab, and keeps question and answer for the fixtures. */
  ask(path: string, body: object): Promise<Answer>;
  /** Replaces the engine's process by a new one, `whileDown` in between. */
  restart(whileDown: () => Promise<void>): Promise<RunningProcess>;
}

/** One row of the table. */
export interface Feature {
  name: string;
  task: Task;
  needsTools?: boolean;
  aboutImages?: boolean;
  /** For a model that is not made for its task. */
  aboutUnfit?: boolean;
  /** Throws if the engine does not do it. Returns a note for the table where more is to be said than "yes". */
  check(context: FeatureContext): Promise<string | undefined>;
}

/** The engine answers correctly that it cannot do this. */
export class NotSupported extends Error {}

interface WireChoice {
  message: { content: string | null; tool_calls?: { function: { name: string; arguments: string } }[] };
  delta: { content?: string };
  logprobs: { content: { top_logprobs: unknown[] }[] } | null;
  finish_reason: string | null;
}

export interface WireUsage {
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
}

export interface WireAnswer {
  choices: WireChoice[];
  usage: WireUsage;
  data: { embedding: number[] | string; relevance_score: number; index: number }[];
  results: { relevance_score: number; index: number }[];
  error: { code: string; param: string | null; message: string };
}

export function must(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

export function jsonOf({ status, text }: Answer, expected = 200): WireAnswer {
  must(status === expected, `${status} instead of ${expected}: ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

export const choiceOf = (answer: WireAnswer): WireChoice => {
  const [choice] = answer.choices;
  must(choice !== undefined, 'no choice');
  return choice;
};

export const chatBody = (more: object = {}): object => ({
  model: MODEL,
  messages: [{ role: 'user', content: 'Name three colours.' }],
  max_tokens: 16,
  temperature: 0,
  seed: 1,
  ...more,
});

/** The events of a stream without the final [DONE]. */
export function eventsOf({ status, text }: Answer): WireAnswer[] {
  must(status === 200, `${status}: ${text.slice(0, 300)}`);
  must(text.trimEnd().endsWith('data: [DONE]'), 'the stream has no [DONE]');
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));
}

/** Checks that the answer is an error with this code and field. */
export function refused(answer: Answer, status: number, code: string, param?: string): void {
  const { error } = jsonOf(answer, status);
  must(error.code === code, `code ${error.code} instead of ${code}: ${error.message}`);
  if (param !== undefined) must(error.param === param, `param ${error.param} instead of ${param}`);
}
