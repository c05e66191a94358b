import type { Static } from 'typebox';
import type { AnswerWriter } from '../../../inference/chat.ts';
import type { ResponseHead } from '../../../services/responses/response-format.ts';
import { inputItems } from './command.ts';
import type { CompactedResponse, CreateResponseBody, InputItemBody } from './schema.ts';
import { sealText } from './sealed-text.ts';
import { itemsToStore } from './stored-items.ts';
import { idPartOf, usageToWire } from './writer.ts';

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

/** Answers with the user's messages, and a summary of the rest. */
export function createCompactionWriter(
  { id, createdAt }: Pick<ResponseHead, 'id' | 'createdAt'>,
  items: readonly InputItemBody[],
): AnswerWriter<Static<typeof CompactedResponse>> {
  const idPart = idPartOf(id);
  const said = items.filter(({ type, role }) => (type ?? 'message') === 'message' && role === 'user');
  let summary = '';
  let usage = usageToWire({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 }, 0);
  return {
    take(_choice, event) {
      if (event.type === 'text-delta') summary += event.text;
      return '';
    },
    end(used) {
      usage = usageToWire(used, 0);
      return '';
    },
    fail: () => '',
    answer: () => ({
      id,
      object: 'response.compaction',
      created_at: Math.floor(createdAt / 1000),
      output: [
        ...itemsToStore(said, idPart),
        { type: 'compaction', id: `cmp_${idPart}_${said.length}`, encrypted_content: sealText(summary) },
      ],
      usage,
    }),
  };
}
