import { afterAll, describe, expect, it, vi } from 'vitest';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

interface LiveEvent {
  name: string;
  data: { data?: { id: string; account_id: string; key_name: string | null }[]; model?: string };
}

/** Reads events until one is the wanted one or the stream ends. */
async function readUntil(answer: Response, isLast: (event: LiveEvent) => boolean): Promise<LiveEvent[]> {
  const events: LiveEvent[] = [];
  let text = '';
  for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? [];
      if (name === '') continue;
      events.push({ name, data: JSON.parse(data) });
    }
    if (events.some(isLast)) break;
  }
  return events;
}

async function createMember(account: string, rights: object = {}): Promise<{ id: string; secret: string }> {
  await bed.post('/v1/admin/accounts', { name: account });
  return (await (await bed.post('/v1/admin/keys', { account, name: 'member', ...rights })).json()) as {
    id: string;
    secret: string;
  };
}

describe('GET /v1/events', () => {
  it('sends a member its own requests and nothing of others', async () => {
    const [one, other] = [await createMember('one'), await createMember('other')];
    const answer = await bed.fetch('/v1/events', { key: one.secret });
    expect(answer.headers.get('content-type')).toContain('text/event-stream');
    await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, other.secret);
    const own = await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, one.secret);
    const events = await readUntil(answer, ({ name }) => name === 'requests');
    const listed = events.flatMap(({ data }) => data.data ?? []);
    expect(listed.map(({ id }) => id)).toEqual([own.headers.get('x-request-id')]);
    expect(events[0]).toMatchObject({ name: 'counters', data: { in_flight: 0, last_minute: {} } });
    expect(events.some(({ name }) => name === 'engine')).toBe(false);
    const refused = await bed.fetch('/v1/events?account=*', { key: one.secret });
    expect(refused.status).toBe(403);
  });

  it('names the key of an operator who worked for a member to operators only, as lists and usage do', async () => {
    const member = await createMember('helped');
    const streams = [
      await bed.fetch('/v1/events', { key: member.secret }),
      await bed.fetch('/v1/events?account=helped'),
    ] as const;
    const answered = await bed.post('/v1/embeddings?account=helped', { model: EMBEDDING, input: 'a' });
    const id = answered.headers.get('x-request-id');
    await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, member.secret);

    const namesIn = async (answer: Response): Promise<(string | null)[]> => {
      const { data, buckets } = (await answer.json()) as Record<string, { key_name: string | null }[]>;
      return (data ?? buckets ?? []).map(({ key_name: name }) => name).sort();
    };
    const seenBy = async (stream: Response, key: string, choice: string) => {
      const isOne = ({ data }: LiveEvent) => data.data?.some((request) => request.id === id) === true;
      const events = await readUntil(stream, isOne);
      const one = (await (await bed.fetch(`/v1/requests/${id}`, { key })).json()) as { key_name: string | null };
      return {
        event: events.flatMap(({ data }) => data.data ?? []).find((request) => request.id === id)?.key_name,
        request: one.key_name,
        list: await namesIn(await bed.fetch(`/v1/requests?${choice}`, { key })),
        usage: await namesIn(
          await bed.fetch(`/v1/usage?start=2026-01-01&bucket=month&group_by=key&${choice}`, { key }),
        ),
      };
    };
    const both = ['first key', 'member'];
    expect(await seenBy(streams[0], member.secret, '')).toEqual({
      event: null,
      request: null,
      list: ['member', null],
      usage: ['member', null],
    });
    expect(await seenBy(streams[1], KEY, 'account=helped')).toEqual({
      event: both[0],
      request: both[0],
      list: both,
      usage: both,
    });
  });

  it('sends operators the engines', async () => {
    const answer = await bed.fetch('/v1/events?account=*');
    const isLast = ({ name, data }: LiveEvent) => name === 'engine' && data.model === EMBEDDING;
    expect((await readUntil(answer, isLast)).some(isLast)).toBe(true);
  });

  it('ends as soon as the key is revoked, without waiting for a timer', async () => {
    const member = await createMember('revoked');
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const answer = await bed.fetch('/v1/events', { key: member.secret });
      await bed.post(`/v1/admin/keys/${member.id}/revoke`, {});
      await readUntil(answer, () => false);
    } finally {
      vi.useRealTimers();
    }
  });

  it('ends at the next check after the key expired', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] });
    try {
      const member = await createMember('expired', { expires_at: new Date(Date.now() + 60_000).toISOString() });
      const answer = await bed.fetch('/v1/events', { key: member.secret });
      let ended = false;
      const reading = readUntil(answer, () => false).then(() => {
        ended = true;
      });
      await vi.advanceTimersByTimeAsync(59_000);
      expect(ended).toBe(false);
      await vi.advanceTimersByTimeAsync(1_500);
      await reading;
    } finally {
      vi.useRealTimers();
    }
  });

  it('bounds the streams of a key', async () => {
    const member = await createMember('many');
    const streams = [];
    for (let index = 0; index < 10; index += 1) streams.push(await bed.fetch('/v1/events', { key: member.secret }));
    expect((await bed.fetch('/v1/events', { key: member.secret })).status).toBe(429);
    for (const { body } of streams) await body?.cancel();
  });

  it('bounds the streams of an account with many keys', async () => {
    const streams = [];
    for (let index = 0; index < 5; index += 1) {
      const { secret } = await createMember('with keys');
      for (let count = 0; count < 10; count += 1) streams.push(await bed.fetch('/v1/events', { key: secret }));
    }
    expect(streams.every(({ status }) => status === 200)).toBe(true);
    const { secret } = await createMember('with keys');
    expect((await bed.fetch('/v1/events', { key: secret })).status).toBe(429);
    const other = await createMember('with one key');
    streams.push(await bed.fetch('/v1/events', { key: other.secret }));
    expect(streams.at(-1)?.status).toBe(200);
    for (const { body } of streams) await body?.cancel();
  });
});
