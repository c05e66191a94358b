import { describe, expect, it } from 'vitest';
import { parseLocation } from './reference.ts';

const hub = (given: object) => ({
  kind: 'hub',
  repo: 'Qwen/Qwen3-4B-GGUF',
  revision: 'main',
  file: undefined,
  ...given,
});

describe('a location', () => {
  it.each([
    ['hf:Qwen/Qwen3-4B-GGUF:Q4_K_M', { kind: 'hub', repo: 'Qwen/Qwen3-4B-GGUF', revision: 'main', file: 'Q4_K_M' }],
    ['hf:a/b@v1', { kind: 'hub', repo: 'a/b', revision: 'v1', file: undefined }],
    ['https://huggingface.co/Qwen/Qwen3-4B-GGUF/', hub({})],
    ['https://hf.co/Qwen/Qwen3-4B-GGUF/tree/v1', hub({ revision: 'v1' })],
    ['https://huggingface.co/Qwen/Qwen3-4B-GGUF/blob/main/q/x.gguf?download=true', hub({ file: 'q/x.gguf' })],
    ['./my.gguf', { kind: 'path', path: '/srv/models/my.gguf' }],
    ['http://host:8000/v1/', { kind: 'upstream', url: 'http://host:8000/v1' }],
    ['http://host:8000', { kind: 'upstream', url: 'http://host:8000/v1' }],
  ])('%s is understood', (text, expected) => {
    expect(parseLocation(text, '/srv/models')).toEqual(expected);
  });

  it('of a wrong form is refused with an example', () => {
    expect(() => parseLocation('hf:only-a-name', '/')).toThrow('hf:Qwen/Qwen3-4B-GGUF:Q4_K_M');
    expect(() => parseLocation('https://huggingface.co/models', '/')).toThrow('use hf:owner/repo');
  });

  it.each(['http://anna:pass-word@host:8000/v1', 'http://key@host/v1', 'https://host/v1?api-version=2026-01-01'])(
    'with parts that upstreams would not get is refused without repeating them: %s',
    (text) => {
      expect(() => parseLocation(text, '/')).toThrow(/must not contain a (user or password|query)/);
      expect(() => parseLocation(text, '/')).not.toThrow(/pass-word|key@/);
    },
  );
});
