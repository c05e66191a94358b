import { randomUUID } from 'node:crypto';
import type { TranscriptionRequest } from '@baobab/core/engine/engine.ts';
import type { UpstreamRequest } from '../dialects/dialect.ts';

export function transcriptionRequest(
  request: TranscriptionRequest,
  wav: Buffer,
  model: string,
): Pick<UpstreamRequest, 'base' | 'route' | 'body' | 'contentType'> {
  return {
    base: 'api',
    route: request.task === 'translate' ? '/audio/translations' : '/audio/transcriptions',
    ...multipart(wav, fields(request, model)),
  };
}

function fields(request: TranscriptionRequest, model: string): [string, string][] {
  const list: [string, string][] = [
    ['model', model],
    ['response_format', 'verbose_json'],
    ['timestamp_granularities[]', 'segment'],
  ];
  if (request.wordTimestamps === true) list.push(['timestamp_granularities[]', 'word']);
  if (request.language !== undefined && request.task !== 'translate') list.push(['language', request.language]);
  if (request.prompt) list.push(['prompt', request.prompt]);
  if (request.temperature !== undefined) list.push(['temperature', String(request.temperature)]);
  return list;
}

/** Written by hand, so that the body is one buffer that a second upstream can be sent too. */
function multipart(wav: Buffer, values: readonly [string, string][]): { body: Buffer; contentType: string } {
  const boundary = `baobab-${randomUUID()}`;
  const head = values.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  head.push(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio.wav"\r\nContent-Type: audio/wav\r\n\r\n`,
  );
  return {
    body: Buffer.concat([Buffer.from(head.join('')), wav, Buffer.from(`\r\n--${boundary}--\r\n`)]),
    contentType: `multipart/form-data; boundary=${boundary}`,
  };
}
