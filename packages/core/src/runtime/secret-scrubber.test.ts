import { describe, expect, it } from 'vitest';
import { createKnownSecrets, createSecretScrubber } from './secret-scrubber.ts';

describe('the secret scrubber', () => {
  const scrub = createSecretScrubber(['sk-"quoted" key', 'sk-plain-1', 'sk-plain-12', undefined, 'none']);

  it.each([
    ['as it is', 'bad key sk-plain-1!', 'bad key [hidden]!'],
    ['in JSON', JSON.stringify({ key: 'sk-"quoted" key' }), '{"key":"[hidden]"}'],
    ['in an address', `?key=${encodeURIComponent('sk-"quoted" key')}&x`, '?key=[hidden]&x'],
    ['in base64', `Basic ${Buffer.from('sk-plain-1').toString('base64')}`, 'Basic [hidden]'],
    ['that is part of another', 'sk-plain-12 sk-plain-1', '[hidden] [hidden]'],
  ])('hides a secret %s', (_name, text, clean) => {
    expect(scrub(text)).toBe(clean);
  });

  it('leaves placeholders alone', () => {
    expect(scrub('none of them')).toBe('none of them');
  });
});

it('hides secrets that become known later', () => {
  const secrets = createKnownSecrets(['sk-first-1']);
  const { scrub } = secrets;
  expect(scrub('sk-first-1 sk-second-2')).toBe('[hidden] sk-second-2');
  secrets.add(['sk-second-2']);
  expect(scrub('sk-first-1 sk-second-2')).toBe('[hidden] [hidden]');
});
