import { chatBody, choiceOf, eventsOf, type Feature, jsonOf, must, NotSupported, refused } from './feature.ts';

const CHAT = '/v1/chat/completions';
const feature = (name: string, check: Feature['check']): Feature => ({ name, task: 'chat', check });
const words = (count: number): string => Array.from({ length: count }, (_, i) => `word${i}`).join(' ');

export const chatFeatures: readonly Feature[] = [
  feature('chat, whole, usage', async ({ ask }) => {
    const answer = jsonOf(await ask(CHAT, chatBody()));
    must(answer.usage.prompt_tokens > 0, 'no prompt tokens');
    must(answer.usage.completion_tokens > 0 && answer.usage.completion_tokens <= 16, 'wrong completion tokens');
    return undefined;
  }),
  feature('chat, streamed, usage', async ({ ask }) => {
    const body = chatBody({ stream: true, stream_options: { include_usage: true } });
    const events = eventsOf(await ask(CHAT, body));
    const { usage } = events.at(-1) ?? {};
    const whole = jsonOf(await ask(CHAT, chatBody()));
    must(usage?.prompt_tokens === whole.usage.prompt_tokens, 'a stream counts another prompt than a whole answer');
    must((usage?.completion_tokens ?? 0) > 0, 'no completion tokens');
    return undefined;
  }),
  feature('completions, streamed', async ({ ask }) => {
    const { model, max_tokens, temperature } = chatBody() as Record<string, unknown>;
    const body = { model, max_tokens, temperature, prompt: 'One, two,', stream: true };
    must(eventsOf(await ask('/v1/completions', body)).length > 1, 'not streamed');
    return undefined;
  }),
  feature('stop sequence', async ({ ask }) => {
    const whole = choiceOf(jsonOf(await ask(CHAT, chatBody()))).message.content ?? '';
    // A text that occurs in the answer but does not begin it.
    const stop = whole
      .slice(Math.floor(whole.length / 2))
      .trim()
      .slice(0, 3);
    must(stop.length > 0, 'the answer is too short to stop in');
    const choice = choiceOf(jsonOf(await ask(CHAT, chatBody({ stop: [stop] }))));
    must(choice.finish_reason === 'stop', `ended with ${choice.finish_reason}`);
    must(!(choice.message.content ?? '').includes(stop), 'the stop text is in the answer');
    return undefined;
  }),
  feature('seed', async ({ ask }) => {
    const body = chatBody({ temperature: 1, seed: 7 });
    const [first, second] = [jsonOf(await ask(CHAT, body)), jsonOf(await ask(CHAT, body))];
    if (choiceOf(first).message.content === choiceOf(second).message.content) return undefined;
    throw new NotSupported('other text with the same seed');
  }),
  feature('log probabilities', async ({ ask, kind }) => {
    const answer = jsonOf(await ask(CHAT, chatBody({ logprobs: true, top_logprobs: 2 })));
    const content = choiceOf(answer).logprobs?.content ?? [];
    if (content.length === 0) throw new NotSupported('none are sent');
    must(
      content.every(({ top_logprobs }) => top_logprobs.length === 2),
      'not two alternatives for each token',
    );
    const missing = answer.usage.completion_tokens - content.length;
    const { finish_reason: reason } = choiceOf(answer);
    if (kind === 'ollama' && reason === 'stop' && missing === 1) return 'yes, but not of the token that ends it';
    must(missing === 0, `${content.length} for ${answer.usage.completion_tokens} tokens`);
    return undefined;
  }),
  feature('cached tokens', async ({ ask }) => {
    const messages = [{ role: 'user', content: `Repeat: ${words(60)}` }];
    await ask(CHAT, chatBody({ messages, max_tokens: 1 }));
    const { usage } = jsonOf(await ask(CHAT, chatBody({ messages, max_tokens: 1 })));
    if (usage.cache_read_tokens === 0) throw new NotSupported('not reported');
    must(usage.cache_read_tokens < usage.prompt_tokens, 'the whole prompt is cached');
    return `${usage.cache_read_tokens} of ${usage.prompt_tokens}`;
  }),
  feature('`max_tokens` over the limit', async ({ ask, model }) => {
    const answer = await ask(CHAT, chatBody({ max_tokens: model.contextLength * 50, stop: ['e'] }));
    if (answer.status === 200) return 'taken, ends with the context';
    refused(answer, 422, 'context_length_exceeded', 'max_tokens');
    return '422';
  }),
  feature('prompt over the context', async ({ ask, model }) => {
    const messages = [{ role: 'user', content: words(model.contextLength) }];
    const answer = await ask(CHAT, chatBody({ messages }));
    if (answer.status === 200) throw new NotSupported('cut without a word');
    refused(answer, 422, 'context_length_exceeded', 'messages');
    return '422';
  }),
];
