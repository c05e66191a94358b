import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { readMessageRequests } from './request.ts';

/** The lines and their number. */
async function read(source: Readable): Promise<{ lines: string[]; count: number }> {
  const requests = readMessageRequests(source as IncomingMessage, { name: 'acct_1', weight: 1 });
  let text = '';
  for await (const chunk of requests.lines) text += Buffer.from(chunk).toString();
  return { lines: text.split('\n').slice(0, -1), count: requests.count() };
}
const readText = (text: string) => read(Readable.from([Buffer.from(text)]));

describe('readMessageRequests', () => {
  it('writes each request as one line of a batch, with its params as they were sent', async () => {
    const text = `{"requests": [
      {"custom_id": "a", "params": {"n": 1.0,\r\n "big": 12345678901234567890, "text": "x\\ny"}},
      {"params": {}, "custom_id": "b"}
    ]}`;
    const { lines, count } = await readText(text);
    expect(count).toBe(2);
    expect(lines).toEqual([
      '{"custom_id":"a","method":"POST","url":"/v1/messages","body": {"n": 1.0,\r  "big": 12345678901234567890, "text": "x\\ny"}}',
      '{"custom_id":"b","method":"POST","url":"/v1/messages","body": {}}',
    ]);
    expect(JSON.parse(lines[0] ?? '').body.text).toBe('x\ny');
  });

  it('writes params whose name has escapes', async () => {
    const { lines } = await readText('{"requests":[{"custom_id":"a","p\\u0061rams":{"x":1}}]}');
    expect(lines.map((line) => JSON.parse(line).body)).toEqual([{ x: 1 }]);
  });

  it('fails when a request does not fit into a line, also because of what a line adds', async () => {
    const item = (bytes: number) => `{"requests":[{"custom_id":"a","params":{"x":"${'x'.repeat(bytes)}"}}]}`;
    await expect(readText(item(8_388_608))).rejects.toThrow("'requests[0]' is longer than 8388608 bytes.");
    await expect(readText(item(8_388_608 - 60))).rejects.toThrow("'requests[0]' is longer than 8388608 bytes.");
  });

  it('reports a client that disconnects as such', async () => {
    const source = new Readable({
      read() {
        this.push('{"requests":[');
        this.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
      },
    });
    await expect(read(source)).rejects.toMatchObject({ code: 'client_cancelled' });
  });

  it('leaves the connection open after an error, so that the error can be sent', async () => {
    const source = Readable.from([Buffer.from('{"requests":[5]'), Buffer.from('}')]);
    await expect(read(source)).rejects.toThrow("'requests[0]' must be an object.");
    expect(source.destroyed).toBe(false);
  });
});
