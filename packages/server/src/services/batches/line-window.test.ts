import { expect, it } from 'vitest';
import { LineWindow } from './slice-run.ts';

/** Lets all promises resolve that can. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

function fill(options = { perModel: 2, maxLines: 6, maxBytes: 1_000 }) {
  const window = new LineWindow(options);
  const running: { name: string; end(): void }[] = [];
  let isWaiting = false;
  /** Adds lines until it has to wait. */
  async function add(...names: string[]): Promise<void> {
    for (const name of names) {
      const [model = ''] = name.split(' ');
      window.add({ model, bytes: 10 }, () => new Promise((resolve) => running.push({ name, end: resolve })));
      isWaiting = true;
      await window.room();
      isWaiting = false;
    }
  }
  const end = async (name: string) => {
    const [line] = running.splice(
      running.findIndex((each) => each.name === name),
      1,
    );
    line?.end();
    await settled();
  };
  return { window, add, end, running: () => running.map(({ name }) => name), isWaiting: () => isWaiting };
}

it('reads no further than the share of the only model', async () => {
  const { add, end, running, isWaiting } = fill();
  void add('a 1', 'a 2', 'a 3');
  await settled();
  expect([running(), isWaiting()]).toEqual([['a 1', 'a 2'], true]);
  await end('a 1');
  expect([running(), isWaiting()]).toEqual([['a 2', 'a 3'], true]);
});

it('runs the lines of a model while those of another wait, up to the most in all', async () => {
  const { window, add, end, running, isWaiting } = fill();
  void add('a 1', 'b 1', 'a 2', 'a 3', 'a 4', 'b 2', 'a 5', 'b 3');
  await settled();
  expect([running(), isWaiting()]).toEqual([['a 1', 'b 1', 'a 2', 'b 2'], true]);
  await end('b 1');
  await end('b 2');
  expect([running(), isWaiting()]).toEqual([['a 1', 'a 2', 'b 3'], true]);
  await end('b 3');
  expect(isWaiting()).toBe(false);
  let hasEnded = false;
  void window.ended().then(() => (hasEnded = true));
  for (const name of ['a 2', 'a 1', 'a 4', 'a 3']) await end(name);
  expect([running(), hasEnded]).toEqual([['a 5'], false]);
  await end('a 5');
  expect(hasEnded).toBe(true);
});

it('takes one line of any length, and the next when the text in memory is short enough', async () => {
  const { add, end, running, isWaiting } = fill({ perModel: 9, maxLines: 9, maxBytes: 15 });
  void add('a 1', 'a 2', 'a 3');
  await settled();
  expect([running(), isWaiting()]).toEqual([['a 1', 'a 2'], true]);
  await end('a 2');
  expect(running()).toEqual(['a 1', 'a 3']);
});
