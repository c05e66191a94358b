import { afterEach, expect, it, vi } from 'vitest';
import { callPages } from './client.ts';

afterEach(() => vi.unstubAllGlobals());

it('reads a list to its last page', async () => {
  const pages: Record<string, object> = {
    none: { data: [{ id: 'key_1' }, { id: 'key_2' }], has_more: true, last_id: 'key_2' },
    key_2: { data: [{ id: 'key_3' }], has_more: false, last_id: 'key_3' },
  };
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (path: string) => {
    asked.push(path);
    return Response.json(pages[new URLSearchParams(path.split('?')[1]).get('after') ?? 'none']);
  });
  expect(await callPages('/v1/keys', { query: { account: 'team' } })).toEqual({
    data: [{ id: 'key_1' }, { id: 'key_2' }, { id: 'key_3' }],
  });
  expect(asked).toEqual(['/v1/keys?account=team&limit=1000', '/v1/keys?account=team&limit=1000&after=key_2']);
});
