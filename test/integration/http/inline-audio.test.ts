import type { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { KEY, startHttpBed } from './bed.ts';

const FILE_BYTES = 900;

function form(): FormData {
  const data = new FormData();
  data.append('model', 'no/such');
  data.append('file', new Blob([new Uint8Array(FILE_BYTES)]), 'a.wav');
  return data;
}

it('audio that is sent inline by an account takes a bounded part of the disk', async () => {
  await using bed = await startHttpBed({ audio: { max_inline_bytes: 1_000 } });
  const send = async () => {
    const answer = await bed.fetch('/v1/audio/transcriptions', { method: 'POST', body: form() });
    return ((await answer.json()) as { error: { code: string } }).error.code;
  };
  const half = `--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n${'x'.repeat(FILE_BYTES + 90)}`;
  const head =
    `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
    'Content-Type: multipart/form-data; boundary=X\r\nContent-Length: 2000\r\n\r\n';
  const sockets: Socket[] = [];
  // One more each time: the request may have taken the place of one that was still arriving.
  const sendBesideOneMore = async () => {
    const socket = await bed.open();
    socket.on('error', () => {});
    socket.write(head + half);
    sockets.push(socket);
    return send();
  };
  await expect.poll(sendBesideOneMore).toBe('concurrency_exceeded');
  for (const socket of sockets) socket.destroy();
  await expect.poll(send).toBe('model_not_found');
});

it('refuses a form whose stream is neither true nor false', async () => {
  await using bed = await startHttpBed();
  const data = form();
  data.append('stream', 'perhaps');
  const answer = await bed.fetch('/v1/audio/transcriptions', { method: 'POST', body: data });
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ error: { code: 'invalid_parameter', param: 'stream' } });
});
