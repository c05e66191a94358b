import { contentOf } from './content.ts';
import type { InputItemBody } from './schema.ts';
import { openText } from './sealed-text.ts';

/** The text of a reasoning item that a client sent back; empty if it came from another server. */
export function openReasoning(item: InputItemBody, path: string): string {
  const { text } = contentOf(item.content, `${path}.content`);
  return text === '' ? openText(item.encrypted_content) : text;
}
