import { describe, expect, it } from 'vitest';
import { createUploadQuota } from './upload-quota.ts';

const KB = 1_024;

function setUp(quota = { items: 10, bytes: 1_000 * KB }) {
  const stored = { items: 0, bytes: 0 };
  return { stored, quota: createUploadQuota({ stored: async () => ({ ...stored }) }, quota) };
}

async function begin({ quota }: ReturnType<typeof setUp>, announcedBytes = 0, accountId = 'acct_1') {
  const upload = await quota.begin(accountId, announcedBytes);
  if (upload === undefined) throw new Error('refused');
  return upload;
}

describe('upload quota', () => {
  it('stops uploads of unknown size as soon as they pass the quota together', async () => {
    const bed = setUp();
    const uploads = await Promise.all(Array.from({ length: 6 }, () => begin(bed)));
    let taken = 0;
    for (let round = 0; round < 500; round += 1) {
      for (const upload of uploads) if (await upload.add(64 * KB)) taken += 64 * KB;
    }
    expect(taken).toBeLessThanOrEqual(1_000 * KB);
    expect(taken).toBeGreaterThan(900 * KB);
  });

  it('counts announced bytes from the start, and each account for itself', async () => {
    const bed = setUp();
    const first = await begin(bed, 900 * KB);
    expect(await bed.quota.begin('acct_1', 101 * KB)).toBeUndefined();
    await begin(bed, 101 * KB, 'acct_2');
    expect(await first.add(900 * KB)).toBe(true);
    expect(await first.add(101 * KB)).toBe(false);
    first.end();
    await begin(bed, 1_000 * KB);
  });

  it('counts uploads in progress as files', async () => {
    const bed = setUp({ items: 2, bytes: 0 });
    bed.stored.items = 1;
    const upload = await begin(bed);
    expect(await bed.quota.begin('acct_1', 0)).toBeUndefined();
    upload.end();
    expect(await bed.quota.begin('acct_1', 0)).toBeDefined();
  });

  it('counts a stored upload once, and sees deleted files before it refuses', async () => {
    const bed = setUp();
    const [first, second] = [await begin(bed), await begin(bed)];
    await first.add(600 * KB);
    Object.assign(bed.stored, { items: 1, bytes: 600 * KB });
    first.end(600 * KB);
    expect(await second.add(401 * KB)).toBe(false);
    Object.assign(bed.stored, { items: 0, bytes: 0 });
    expect(await second.add(0)).toBe(true);
  });

  it('limits nothing without a quota', async () => {
    const bed = setUp({ items: 0, bytes: 0 });
    const upload = await begin(bed);
    expect(await upload.add(Number.MAX_SAFE_INTEGER)).toBe(true);
  });
});
