import { expect, it } from 'vitest';
import { compareListed } from './model-order.ts';

const chat = { modality: 'chat', status: 'cold', starter: false } as const;

it('lists usable chat models first, starters before others and specialists last', () => {
  const models = [
    { ...chat, slug: 'a/translator', status: 'ready', specialist: true },
    { ...chat, slug: 'b/embed', modality: 'embedding', status: 'ready' },
    { ...chat, slug: 'c/cold' },
    { ...chat, slug: 'd/starter', starter: true },
    { ...chat, slug: 'e/loaded', status: 'ready' },
  ] as const;
  expect([...models].sort(compareListed).map(({ slug }) => slug)).toEqual([
    'e/loaded',
    'd/starter',
    'c/cold',
    'a/translator',
    'b/embed',
  ]);
});
