import type { ChatMessage, ChatRequest } from '@baobab/core/engine/engine.ts';

/** What common chat templates add around each message. */
const TOKENS_PER_MESSAGE = 4;

/**
 * With the vocabularies of today's models, a token has about four bytes of UTF-8 in most scripts. For bills, and so rather too little than too
 * much: limits and budgets reserve more (domain/text-size.ts).
 */
const BYTES_PER_TOKEN = 4;
export const billedTokensAtLeast = (text: string): number => Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);

/** Used only where the upstream gives no count. */
export function billedPromptTokensAtLeast({ prompt, tools }: ChatRequest): number {
  if ('tokens' in prompt) return prompt.tokens.length;
  if ('text' in prompt) return billedTokensAtLeast(prompt.text);
  const toolTokens = tools === undefined || tools.length === 0 ? 0 : billedTokensAtLeast(JSON.stringify(tools));
  return prompt.messages.reduce((sum, message) => {
    const calls = message.toolCalls?.reduce((n, call) => n + billedTokensAtLeast(call.name + call.arguments), 0) ?? 0;
    return sum + TOKENS_PER_MESSAGE + billedTokensAtLeast(message.content) + calls + imageTokens(message);
  }, toolTokens);
}

export const imageTokens = ({ images = [] }: ChatMessage): number =>
  images.reduce((sum, { tokens }) => sum + tokens, 0);
