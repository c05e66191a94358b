import { contentOf } from './content.ts';
import type { InputItemBody } from './schema.ts';

/**
 * Clients that keep the conversation themselves send back only the `encrypted_content` of a reasoning item. The text is the client's
 * own, so it is encoded, not encrypted.
 */
const PREFIX = 'baobab.';

export const sealReasoning = (text: string): string => `${PREFIX}${Buffer.from(text).toString('base64url')}`;

/** The text of a reasoning item that a client sent back; empty if it came from another server. */
export function openReasoning(item: InputItemBody, path: string): string {
  const { text } = contentOf(item.content, `${path}.content`);
  if (text !== '') return text;
  const sealed = item.encrypted_content;
  return sealed?.startsWith(PREFIX) ? Buffer.from(sealed.slice(PREFIX.length), 'base64url').toString() : '';
}
