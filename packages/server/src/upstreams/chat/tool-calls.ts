import { randomUUID } from 'node:crypto';
import type { ChatEvent } from '@baobab/core/engine/engine.ts';

/** A tool call of an answer, or a piece of one. */
export interface WireToolCall {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string | Record<string, unknown> | null };
}

type ToolCallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

interface KnownCall {
  /** As the upstream numbers it. */
  given: number | undefined;
  givenId: string | undefined;
  id: string;
  isNamed: boolean;
}

export const newCallId = (): string => `call_${randomUUID().replaceAll('-', '')}`;

/**
 * Numbers the calls of one answer from 0 and gives each an id. Upstreams begin at 1, use 0 for all, or leave out ids and numbers; some
 * repeat id and name in every piece, which clients would join.
 */
export class ToolCalls {
  readonly #calls: KnownCall[] = [];

  get count(): number {
    return this.#calls.length;
  }

  read(piece: WireToolCall): ToolCallDelta {
    const { name, arguments: given } = piece.function ?? {};
    const known = this.#find(piece);
    const index = known === -1 ? this.#calls.length : known;
    const call = this.#calls[known] ?? this.#begin(piece);
    const event: ToolCallDelta = {
      type: 'tool-call-delta',
      index,
      argumentsDelta: typeof given === 'string' ? given : given ? JSON.stringify(given) : '',
    };
    const isNamedNow = Boolean(name) && !call.isNamed;
    if (known === -1 || isNamedNow) event.id = call.id;
    if (name && isNamedNow) event.name = name;
    call.isNamed ||= isNamedNow;
    return event;
  }

  /** The call that a piece belongs to, or -1 for a new one. */
  #find({ index, id, function: { name } = {} }: WireToolCall): number {
    // Without a number, each call with a name is a new one.
    if (typeof index !== 'number') return name ? -1 : this.#calls.length - 1;
    const found = this.#calls.findLastIndex(({ given }) => given === index);
    const givenId = this.#calls[found]?.givenId;
    return id && givenId !== undefined && id !== givenId ? -1 : found;
  }

  #begin({ index, id }: WireToolCall): KnownCall {
    const call = { given: index, givenId: id || undefined, id: id || newCallId(), isNamed: false };
    this.#calls.push(call);
    return call;
  }
}
