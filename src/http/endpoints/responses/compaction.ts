import type { TokenUsage } from '../../../engines/engine.ts';
import { usageToWire } from './answer.ts';
import { inputItems } from './request.ts';
import type { CreateResponseBody, InputItemBody } from './schema.ts';
import { sealText } from './sealed-text.ts';
import { itemsToStore } from './stored.ts';

const INSTRUCTION = [
  'Summarize this conversation for a model that will continue it without seeing it.',
  'Keep the goal, what the user asked for, decisions, facts, names, paths and numbers, results of tools, and what is left to do.',
  'Answer with the summary only.',
].join(' ');

/** The request that makes a model summarize a conversation. Tools are left out, so that it cannot call one. */
export function compactionRequest(body: CreateResponseBody): CreateResponseBody {
  const { model, instructions } = body;
  const input: InputItemBody[] = [...inputItems(body), { type: 'message', role: 'user', content: INSTRUCTION }];
  return { model, input, ...(instructions && { instructions }) };
}

export interface Compaction {
  id: string;
  createdAt: number;
  items: readonly InputItemBody[];
  summary: string;
  usage: TokenUsage;
}

/** The user's messages, and a summary of the rest. */
export function compactionToWire({ id, createdAt, items, summary, usage }: Compaction) {
  const idPart = id.slice(id.indexOf('_') + 1);
  const said = items.filter(({ type, role }) => (type ?? 'message') === 'message' && role === 'user');
  return {
    id,
    object: 'response.compaction' as const,
    created_at: Math.floor(createdAt / 1000),
    output: [
      ...itemsToStore(said, idPart),
      { type: 'compaction', id: `cmp_${idPart}_${said.length}`, encrypted_content: sealText(summary) },
    ],
    usage: usageToWire(usage, 0),
  };
}
