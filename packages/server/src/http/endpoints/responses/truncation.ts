import type { ChatCommand } from '../../../inference/chat-command.ts';

/**
 * The same chat without about a quarter of its oldest messages, up to where a user speaks again: calls stay with their results.
 * Undefined: nothing is left that could go.
 */
export function withoutOldest(command: ChatCommand): ChatCommand | undefined {
  const { request, images = [], documents } = command;
  if (!('messages' in request.prompt)) return undefined;
  const { messages } = request.prompt;
  const start = Math.max(
    0,
    messages.findIndex(({ role }) => role !== 'system'),
  );
  const wanted = start + Math.max(1, Math.floor((messages.length - start) / 4));
  const next = messages.findIndex(({ role }, index) => index >= wanted && role === 'user');
  if (next === -1) return undefined;
  const dropped = next - start;
  const moved = <T extends { message: number }>(placed: readonly T[]): T[] =>
    placed.filter(({ message }) => message >= next).map((each) => ({ ...each, message: each.message - dropped }));
  return {
    ...command,
    request: { ...request, prompt: { messages: [...messages.slice(0, start), ...messages.slice(next)] } },
    images: moved(images),
    documents: documents && moved(documents),
  };
}
