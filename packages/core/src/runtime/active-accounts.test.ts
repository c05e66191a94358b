import { describe, expect, it } from 'vitest';
import { ActiveAccounts } from './active-accounts.ts';

describe('accounts with calls', () => {
  const one = { accountId: 'one', priority: 'interactive' };
  const two = { accountId: 'two', priority: 'interactive' };

  it('are several while two have calls, however long those take, and for a second more', () => {
    let time = 0;
    const active = new ActiveAccounts(() => time);
    active.begin(one);
    active.begin(one);
    expect(active.areSeveral()).toBe(false);
    active.begin(two);
    time = 60_000;
    expect(active.areSeveral()).toBe(true);
    active.end(one);
    active.end(two);
    time = 61_000;
    expect(active.areSeveral()).toBe(true);
    time = 61_001;
    expect(active.areSeveral()).toBe(false);
  });

  it('are several where one sends batches besides', () => {
    const active = new ActiveAccounts(() => 0);
    active.begin(one);
    active.begin({ ...one, priority: 'batch' });
    expect(active.areSeveral()).toBe(true);
  });
});
