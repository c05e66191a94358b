import { describe, expect, it } from 'vitest';
import { cleanFilename, parsePurpose, UPLOAD_PURPOSES } from './file.ts';

describe('file names', () => {
  it('keeps any Unicode and what forms escape', () => {
    expect(cleanFilename('Übung – 日本語 🙂.jsonl')).toBe('Übung – 日本語 🙂.jsonl');
    expect(cleanFilename('a %22quoted%22 name.txt')).toBe('a "quoted" name.txt');
    expect(cleanFilename('100%.txt')).toBe('100%.txt');
  });

  it('drops directories and control characters, and replaces empty names', () => {
    expect(cleanFilename('../../etc/passwd')).toBe('passwd');
    expect(cleanFilename('C:\\Users\\x\\in.jsonl')).toBe('in.jsonl');
    expect(cleanFilename('a\r\nSet-Cookie: x')).toBe('aSet-Cookie: x');
    expect(cleanFilename('a%0D%0ASet-Cookie: x')).toBe('aSet-Cookie: x');
    for (const name of ['', '.', '..', '/', ' ', '\0', 'a/..']) expect(cleanFilename(name)).toBe('file');
  });

  it('cuts a very long name between characters', () => {
    expect([...cleanFilename('🙂'.repeat(400))]).toHaveLength(255);
    expect(cleanFilename('\ud83d.txt')).toBe('\ufffd.txt');
  });

  it('knows the purposes, and those of uploads', () => {
    expect(parsePurpose('batch')).toBe('batch');
    expect(parsePurpose('message_batch')).toBe('message_batch');
    expect(() => parsePurpose('message_batch', UPLOAD_PURPOSES)).toThrow(/not supported/);
    for (const purpose of ['assistants', 'fine-tune', '']) {
      expect(() => parsePurpose(purpose)).toThrow(/not supported. Accepted: 'batch', 'transcription'/);
    }
  });
});
