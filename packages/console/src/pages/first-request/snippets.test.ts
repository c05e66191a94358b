import { expect, it } from 'vitest';
import { transcriptionSnippet } from '../playground/transcription/snippet.ts';
import { snippet } from './snippets.ts';

const origin = 'http://127.0.0.1:8080';

it('names the account that pays, where it is not that of the key', () => {
  const chat = { origin, path: '/v1/chat/completions', body: {} };
  const audio = { origin, model: 'acme/ears', file: 'a.wav', language: '', prompt: '' };
  for (const language of ['curl', 'javascript', 'python'] as const) {
    const written = (query: Record<string, string>) => [
      snippet(language, { ...chat, query }),
      transcriptionSnippet(language, { ...audio, query }),
    ];
    for (const code of written({ account: 'acct_1' })) expect(code).toMatch(/['"]http\S+\?account=acct_1['"]/);
    for (const code of written({})) expect(code).not.toContain('?');
  }
});
