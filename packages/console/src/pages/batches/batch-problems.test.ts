import { expect, it } from 'vitest';
import { readStart } from '../../api/client.ts';
import { parseProblems } from './batch-problems.ts';

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
