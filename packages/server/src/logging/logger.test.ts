import { Writable } from 'node:stream';
import { createSecretScrubber } from '@baobab/core/runtime/secret-scrubber.ts';
import { describe, expect, it } from 'vitest';
import { createLogger, prettyLine } from './logger.ts';

function capture(format: 'auto' | 'json' | 'pretty', isTTY = false) {
  let text = '';
  const write = (line: Buffer, _: string, done: () => void) => {
    text += line;
    done();
  };
  const out = Object.assign(new Writable({ write }), { isTTY });
  return {
    logger: createLogger({ level: 'info', format, scrub: createSecretScrubber(['sk-"configured']) }, out),
    read: () => text,
  };
}

describe('a line for people', () => {
  const time = Date.parse('2026-11-15T08:30:00.250Z');

  it('has time, level, message and the fields that are set', () => {
    const line = JSON.stringify({
      level: 30,
      time,
      reqId: 'req_1',
      status: 200,
      key: null,
      list: [1, 2],
      msg: 'request',
    });
    expect(prettyLine(line)).toBe('08:30:00.250 info  request  reqId=req_1 status=200 list=[1,2]\n');
  });

  it('has the stack of an error on lines of its own', () => {
    const line = JSON.stringify({
      level: 50,
      time,
      msg: 'failed',
      err: { message: 'broken', stack: 'Error: broken\n  at x' },
    });
    expect(prettyLine(line)).toBe('08:30:00.250 error failed\n  Error: broken\n  at x\n');
  });

  it('is chosen by itself on a terminal only', () => {
    const terminal = capture('auto', true);
    terminal.logger.info('hello');
    expect(terminal.read()).toMatch(/^\d\d:\d\d:\d\d\.\d{3} info {2}hello\n$/);
    const pipe = capture('auto');
    pipe.logger.info('hello');
    expect(JSON.parse(pipe.read())).toEqual({ level: 30, time: expect.any(Number), msg: 'hello' });
  });
});

describe('secrets', () => {
  it.each(['json', 'pretty'] as const)('do not come out as %s, should they ever be logged', (format) => {
    const { logger, read } = capture(format);
    logger.info({ authorization: 'Bearer s3cret', apiKey: 's3cret', headers: { authorization: 's3cret' } }, 'a');
    logger.info({ config: { apiKey: 's3cret', hfToken: 's3cret' }, key: { secret: 's3cret', id: 'key_1' } }, 'b');
    logger
      .child({ secret: 'a"s3cret\\' })
      .info({ deep: { er: [{ authorization: ['}s3cret', 's3cret'] }] }, next: 1 }, 'c');
    logger.info({ secret: { value: '"}]s3cret', of: 1 }, apiKey: null }, 'd');
    const text = read();
    expect(text).toContain('[hidden]');
    expect(text).toContain('key_1');
    expect(text).not.toContain('s3cret');
  });

  it.each(['json', 'pretty'] as const)('of our own form are masked anywhere in a line as %s', (format) => {
    const { logger, read } = capture(format);
    const secret = `bao_sk_${'aB3'.repeat(13)}x`;
    logger.info({ path: `/v1/models/${secret}`, list: [secret] }, `refused ${secret}`);
    logger.error({ err: new Error(`no such key: ${secret}`) }, 'failed');
    const text = read();
    expect(text).toContain('/v1/models/bao_sk_[hidden]');
    expect(text).toContain('refused bao_sk_[hidden]');
    expect(text).not.toContain('aB3');
  });
});

it('prints no control characters to a terminal', () => {
  const { logger, read } = capture('pretty');
  logger.info({ path: '/\u001b[2J\u009b', list: ['\u009b'] }, 'a\nb');
  expect(read()).toMatch(/a\\u000ab {2}path=\/\\u001b\[2J\\u009b list=\["\\u009b"\]\n$/);
});

describe('a configured secret', () => {
  it.each(['json', 'pretty'] as const)('is hidden wherever it turns up (%s)', (format) => {
    const { logger, read } = capture(format);
    logger.warn({ detail: 'bad key sk-"configured', err: new Error('sk-"configured') }, 'refused sk-"configured');
    const text = read();
    expect(text).not.toContain('configured');
    expect(text.match(/\[hidden\]/g)?.length).toBeGreaterThanOrEqual(3);
  });
});
