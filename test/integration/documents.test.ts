import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { bombPdf, imagePdf, lockedPdf, longPdf, pdfUrl, textPdf } from '../fixtures/pdf.ts';
import { CHAT, EMBEDDING, startHttpBed } from './http/bed.ts';

const VISION = 'google/gemma-3-4b-it';
const TALE = 'Once there was a baobab.';

const model = await startFakeUpstream('vllm');
const bed = await startHttpBed({
  documents: { max_per_request: 3, max_bytes: 1_000_000, max_pages: 4, max_characters: 20_000, readers: 2 },
  // Shorter than a reader needs for a bomb: one that waits for another bomb still gets the error that names it.
  engines: { queue_timeout_seconds: 1 },
  upstreams: [CHAT, VISION, EMBEDDING].map((slug) => ({ model: slug, url: model.url, kind: 'vllm' })),
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await model.close();
});
afterEach(() => {
  model.requests.length = 0;
});

type Part = Record<string, unknown>;
const inResponse = (part: Part, more: object = {}) =>
  bed.post('/v1/responses', { model: CHAT, input: [{ role: 'user', content: [part] }], ...more });
const inChat = (part: Part, more: object = {}) =>
  bed.post('/v1/chat/completions', { model: CHAT, messages: [{ role: 'user', content: [part] }], ...more });
const inMessage = (part: Part, more: object = {}) =>
  bed.post('/v1/messages', { model: CHAT, max_tokens: 10, messages: [{ role: 'user', content: [part] }], ...more });

const inputFile = (pdf: Buffer) => ({ type: 'input_file', filename: 'tale.pdf', file_data: pdfUrl(pdf) });
const base64Source = (pdf: Buffer) => ({
  type: 'base64',
  media_type: 'application/pdf',
  data: pdf.toString('base64'),
});
const sent = () =>
  (model.requests.at(-1)?.body as { messages: { role: string; content: unknown }[] } | undefined)?.messages ?? [];

async function upload(content: Buffer, purpose = 'user_data', filename = 'tale.pdf'): Promise<string> {
  const form = new FormData();
  form.set('purpose', purpose);
  form.set('file', new Blob([Uint8Array.from(content)]), filename);
  const answer = await bed.fetch('/v1/files', { method: 'POST', body: form });
  return ((await answer.json()) as { id: string }).id;
}

async function openAccount(name: string): Promise<string> {
  await bed.post('/v1/admin/accounts', { name });
  const { secret } = (await (await bed.post('/v1/admin/keys', { account: name, name })).json()) as { secret: string };
  return secret;
}

async function refusal(answer: Response): Promise<unknown> {
  const { error } = (await answer.json()) as { error: { code: string; param: string } };
  return [answer.status, error.code, error.param];
}

describe('a PDF in a prompt', () => {
  it('is read in responses, chats and messages', async () => {
    const pdf = textPdf(TALE);
    expect((await inResponse(inputFile(pdf))).status).toBe(200);
    expect(sent()).toEqual([{ role: 'user', content: `<file name="tale.pdf">\n${TALE}\n</file>` }]);
    const part = { type: 'file', file: { filename: 'tale.pdf', file_data: pdfUrl(pdf) } };
    expect((await inChat(part)).status).toBe(200);
    expect(sent()).toEqual([{ role: 'user', content: `<file name="tale.pdf">\n${TALE}\n</file>` }]);
    expect((await inMessage({ type: 'document', title: 'A tale', source: base64Source(pdf) })).status).toBe(200);
    expect(sent()).toEqual([{ role: 'user', content: `<document title="A tale">\n${TALE}\n</document>` }]);
  });

  it('is read from an uploaded file, like a text', async () => {
    const pdf = await upload(textPdf(TALE));
    const text = await upload(Buffer.from(TALE), 'user_data', 'tale.txt');
    const file = (name: string) => [{ role: 'user', content: `<file name="${name}">\n${TALE}\n</file>` }];
    expect((await inResponse({ type: 'input_file', file_id: pdf })).status).toBe(200);
    expect(sent()).toEqual(file('tale.pdf'));
    expect((await inResponse({ type: 'input_file', file_id: text })).status).toBe(200);
    expect(sent()).toEqual(file('tale.txt'));
    expect((await inChat({ type: 'file', file: { file_id: pdf } })).status).toBe(200);
    expect(sent()).toEqual(file('tale.pdf'));
    expect((await inMessage({ type: 'document', source: { type: 'file', file_id: pdf } })).status).toBe(200);
    expect(sent()).toEqual([{ role: 'user', content: `<document title="tale.pdf">\n${TALE}\n</document>` }]);
  });

  it('keeps its place between texts, also in the result of a tool', async () => {
    const input = [
      { role: 'user', content: 'Read it.' },
      { type: 'function_call', call_id: 'c', name: 'read', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'c',
        output: [
          { type: 'input_text', text: 'Here: ' },
          inputFile(textPdf(TALE)),
          { type: 'input_text', text: ' End.' },
        ],
      },
    ];
    expect((await bed.post('/v1/responses', { model: CHAT, input })).status).toBe(200);
    expect(sent().at(-1)).toMatchObject({
      role: 'tool',
      content: `Here: <file name="tale.pdf">\n${TALE}\n</file> End.`,
    });
  });

  it('is read again when a stored response is continued', async () => {
    const first = (await (await inResponse(inputFile(textPdf(TALE)))).json()) as { id: string };
    const next = await bed.post('/v1/responses', { model: CHAT, input: 'Who?', previous_response_id: first.id });
    expect(next.status).toBe(200);
    expect(sent()[0]).toEqual({ role: 'user', content: `<file name="tale.pdf">\n${TALE}\n</file>` });
  });

  it('is missed by the name of what continues it when its file was deleted', async () => {
    const fileId = await upload(textPdf(TALE));
    const first = (await (await inResponse({ type: 'input_file', file_id: fileId })).json()) as { id: string };
    await bed.fetch(`/v1/files/${fileId}`, { method: 'DELETE' });
    const next = await bed.post('/v1/responses', { model: CHAT, input: 'Who?', previous_response_id: first.id });
    expect(await refusal(next)).toEqual([404, 'file_not_found', 'previous_response_id']);
  });

  it('can be an uploaded image for a model that sees', async () => {
    const image = Buffer.alloc(64, 7);
    image.write('89504e470d0a1a0a0000000d49484452', 'hex');
    image.writeUInt32BE(64, 16);
    image.writeUInt32BE(64, 20);
    const id = await upload(image, 'vision', 'cat.png');
    expect((await inResponse({ type: 'input_file', file_id: id }, { model: VISION })).status).toBe(200);
    expect(sent()[0]?.content).toMatchObject([{ type: 'image_url' }]);
    expect(await refusal(await inResponse({ type: 'input_file', file_id: id }))).toEqual([
      422,
      'unsupported_parameter',
      'input[0].content[0]',
    ]);
  });
});

describe('documents of the Messages API', () => {
  it('can be text, or blocks of text', async () => {
    const expected = [{ role: 'user', content: `<document title="document">\n${TALE}\n</document>` }];
    for (const source of [
      { type: 'text', media_type: 'text/plain', data: TALE },
      { type: 'base64', media_type: 'text/plain', data: Buffer.from(TALE).toString('base64') },
      { type: 'content', content: TALE },
      { type: 'content', content: [{ type: 'text', text: TALE }] },
    ]) {
      expect((await inMessage({ type: 'document', source })).status).toBe(200);
      expect(sent()).toEqual(expected);
    }
  });

  it('are not fetched, and are refused in the shape of this API', async () => {
    const answer = await inMessage({ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } });
    expect(answer.status).toBe(422);
    expect(await answer.json()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringContaining("'messages[0].content[0]'") },
    });
  });
});

describe('a PDF that cannot be used', () => {
  it.each([
    ['damaged', () => Buffer.from('%PDF-1.4 nothing'), 400, 'invalid_parameter'],
    ['locked', lockedPdf, 422, 'unsupported_parameter'],
    ['without text', imagePdf, 422, 'unsupported_parameter'],
    ['of too many pages', () => textPdf('1', '2', '3', '4', '5'), 422, 'validation_failed'],
    ['too long', () => longPdf(2_000), 422, 'validation_failed'],
    ['too large', () => Buffer.alloc(1_000_001, '%PDF-'), 422, 'validation_failed'],
  ])('is refused and named when it is %s', async (_what, pdf, status, code) => {
    expect(await refusal(await inResponse(inputFile(pdf())))).toEqual([status, code, 'input[0].content[0]']);
    expect(model.requests).toEqual([]);
  });

  it('is refused before a stream begins', async () => {
    const part = { type: 'file', file: { file_data: pdfUrl(lockedPdf()) } };
    expect(await refusal(await inChat(part, { stream: true }))).toEqual([
      422,
      'unsupported_parameter',
      'messages[0].content[0]',
    ]);
  });

  it('holds up no other account when it is a bomb', async () => {
    const other = await openAccount('other');
    const bomb = inputFile(bombPdf());
    // As many as there are readers. One is left to the others.
    const bombs = [inResponse(bomb), inResponse({ ...bomb, file_data: `${bomb.file_data} ` })];
    const body = { model: CHAT, input: [{ role: 'user', content: [inputFile(textPdf(TALE))] }] };
    expect((await bed.post('/v1/responses', body, other)).status).toBe(200);
    for (const answer of await Promise.all(bombs)) {
      expect([await refusal(answer)]).toEqual([[422, expect.any(String), 'input[0].content[0]']]);
    }
  });

  it('is refused in too great a number', async () => {
    const content = Array.from({ length: 4 }, () => inputFile(textPdf(TALE)));
    const answer = await bed.post('/v1/responses', { model: CHAT, input: [{ role: 'user', content }] });
    expect(await refusal(answer)).toEqual([422, 'validation_failed', 'input[0].content[0]']);
  });

  it('is refused outside of what users and tools say', async () => {
    const input = [{ role: 'developer', content: [inputFile(textPdf(TALE))] }];
    expect(await refusal(await bed.post('/v1/responses', { model: CHAT, input }))).toEqual([
      422,
      'unsupported_parameter',
      'input[0].content[0]',
    ]);
  });
});

describe('other files', () => {
  it.each([
    [{ file_url: 'https://example.com/a.pdf' }, 422, 'input[0].content[0].file_url'],
    [{ file_data: 'data:application/zip;base64,UEsDBA==' }, 422, 'input[0].content[0]'],
    [{ file_data: 'data:text/plain,100%' }, 400, 'input[0].content[0].file_data'],
    [{ filename: 'a.pdf' }, 400, 'input[0].content[0].file_data'],
    [{ file_id: 'file_of_nobody' }, 404, 'input[0].content[0]'],
  ])('are refused: %j', async (fields, status, param) => {
    const [given, , named] = (await refusal(await inResponse({ type: 'input_file', ...fields }))) as unknown[];
    expect([given, named]).toEqual([status, param]);
  });

  it('are refused when they were uploaded for something else, are no text or belong to another account', async () => {
    const batch = await upload(Buffer.from('{}'), 'batch', 'a.jsonl');
    expect(await refusal(await inResponse({ type: 'input_file', file_id: batch }))).toEqual([
      400,
      'invalid_parameter',
      'input[0].content[0]',
    ]);
    const binary = await upload(Buffer.from([0xff, 0xfe, 0x00, 0xd8]), 'user_data', 'a.bin');
    expect(await refusal(await inResponse({ type: 'input_file', file_id: binary }))).toEqual([
      422,
      'unsupported_parameter',
      'input[0].content[0]',
    ]);
    const other = await openAccount('stranger');
    const body = { model: CHAT, input: [{ role: 'user', content: [{ type: 'input_file', file_id: batch }] }] };
    expect((await bed.post('/v1/responses', body, other)).status).toBe(404);
  });
});
