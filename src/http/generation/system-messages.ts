import type { ChatMessage } from '../../engines/engine.ts';

/**
 * Agents send several system messages, also in the middle of a conversation. Many chat templates refuse that: they take one, at the
 * beginning. So the leading ones are joined, and later ones become marked user messages.
 */
export function orderSystemMessages(messages: readonly ChatMessage[]): ChatMessage[] {
  const firstOther = messages.findIndex(({ role }) => role !== 'system');
  const leading = firstOther === -1 ? messages : messages.slice(0, firstOther);
  const text = leading
    .map(({ content }) => content)
    .filter((content) => content !== '')
    .join('\n\n');
  const rest = messages.slice(leading.length).map((message): ChatMessage => {
    if (message.role !== 'system') return message;
    return { role: 'user', content: `<system-reminder>\n${message.content}\n</system-reminder>` };
  });
  // An empty request is a probe. Templates want at least one message.
  if (rest.length === 0) rest.push({ role: 'user', content: '' });
  return text === '' ? rest : [{ role: 'system', content: text }, ...rest];
}
