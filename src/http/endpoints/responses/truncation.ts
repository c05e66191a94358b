import type { ChatCommand } from '../../../services/chat.ts';

/**
 * The same chat without about a quarter of its oldest messages, up to where a user speaks again: calls stay with their results.
 * Undefined: nothing is left that could go.
 */
export function withoutOldest(command: ChatCommand): ChatCommand | undefined {
  const { request, images = [] } = command;
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
  return {
    ...command,
    request: { ...request, prompt: { messages: [...messages.slice(0, start), ...messages.slice(next)] } },
    images: images
      .filter(({ message }) => message >= next)
      .map((image) => ({ ...image, message: image.message - dropped })),
  };
}
