import { expect, it } from 'vitest';
import { readStart } from '../../api/client.ts';
import { firstLine, parseProblems } from './batch-problems.ts';

it('reads the beginning of a large file and leaves the rest', async () => {
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 1;
      controller.enqueue(new TextEncoder().encode(`{"custom_id":"${sent}","error":{"code":"x","message":"é"}}\n`));
    },
  });
  const problems = parseProblems(await readStart(endless, 200), 200);
  expect(problems[0]).toEqual({ name: '1', code: 'x', message: 'é' });
  expect(sent).toBeLessThan(10);
});

it('reads the endpoint and the model of an input file from its first line', () => {
  const line = JSON.stringify({ custom_id: 'a', url: '/v1/embeddings', body: { model: 'acme/embed', input: 'x' } });
  expect(firstLine(`${line}\n{"url": "/v1/rerank"}`)).toEqual({ url: '/v1/embeddings', model: 'acme/embed' });
  expect(firstLine('{"url": 5, "body": null}')).toEqual({});
  expect(firstLine('{"custom_id": "cut o')).toBeUndefined();
});
