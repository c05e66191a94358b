import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { SCOPE_OF_MODALITY } from '@baobab/core/domain/scopes.ts';
import { isHopelesslyLong } from '@baobab/core/domain/text-size.ts';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { InferenceCall } from './call.ts';
import { checkPromptSizes } from './chat-prompt.ts';
import type { BilledWork, InferenceService } from './pipeline.ts';
import type { InferenceSession } from './session.ts';

export interface EncodeCommand {
  model: string;
  /** A text, or the messages of a chat. */
  request: ChatRequest;
  /** With the tokens that the model puts around a text. */
  special: boolean;
}

export interface EncodedPrompt {
  tokens: readonly number[];
  contextLength: number;
}

/** Texts as the tokens of any model, and back. Takes part in the request limits and costs nothing. */
export interface TokensService {
  encode(call: InferenceCall, command: EncodeCommand): Promise<EncodedPrompt>;
  decode(call: InferenceCall, command: { model: string; tokens: readonly number[] }): Promise<string>;
}

const FREE = { tokens: 0, most: {} };

export function createTokens({ inference }: { inference: Pick<InferenceService, 'run'> }): TokensService {
  return {
    encode(call, { model, request, special }) {
      const { prompt } = request;
      const isChat = 'messages' in prompt;
      let contextLength = 0;
      const work: BilledWork<EncodedPrompt> = {
        modality: isChat ? 'chat' : undefined,
        model,
        bound({ entry }) {
          contextLength = entry.contextLength;
          checkScope(call, entry);
          checkPromptSizes(entry, { model, choices: 1, request });
          return FREE;
        },
        async run(session) {
          const { context } = session;
          if (!isChat) {
            const text = 'text' in prompt ? prompt.text : '';
            return { tokens: await tokenizerOf(session).encode(text, special, context), contextLength };
          }
          const { encode } = session.capability('chat');
          if (encode === undefined) throw cannotTell();
          return { tokens: await encode(request, context), contextLength };
        },
      };
      return inference.run(call, work);
    },

    decode: (call, { model, tokens }) =>
      inference.run(call, {
        modality: undefined,
        model,
        bound({ entry }) {
          const { contextLength } = entry;
          checkScope(call, entry);
          // As long as a text that is encoded may be.
          if (isHopelesslyLong(tokens.length, contextLength)) throw errors.contextFarTooLong(['tokens'], contextLength);
          return FREE;
        },
        run: (session) => tokenizerOf(session).decode(tokens, session.context),
      }),
  };
}

/** Counting loads a model, so it takes the same right as running it. */
function checkScope({ principal }: InferenceCall, { modality }: ModelEntry): void {
  const scope = SCOPE_OF_MODALITY[modality];
  if (!principal.key.scopes.includes(scope)) throw errors.insufficientScope(scope);
}

function tokenizerOf(session: InferenceSession) {
  const { tokenizer } = session;
  if (tokenizer === undefined) throw cannotTell();
  return tokenizer;
}

const cannotTell = () =>
  errors.unsupportedParameter(['model'], fieldText`The engine of ${['model']} cannot tell its tokens.`);
