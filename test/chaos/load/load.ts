import { setTimeout as sleep } from 'node:timers/promises';
import type { Moments } from '../cluster/moments.ts';
import type { Random } from '../random.ts';
import { LIMITS, openAccount } from './accounts.ts';
import { type Attempts, createAttempts } from './attempts.ts';
import { backgroundLane } from './background-lane.ts';
import { batchLane } from './batch-lane.ts';
import { type Account, type Caller, createCaller } from './caller.ts';
import { fileLanes } from './file-lanes.ts';
import { chatOf, embeddingOf, inferenceLanes } from './inference-lanes.ts';
import { repeatedKeys } from './repeated-keys.ts';

/** Retries go on this long after the load has stopped. */
const RETRY_MS = 120_000;

const AFTER_A_FAILURE_MS = 200;
const AFTER_A_REFUSAL_MS = 2_000;

export interface LoadOptions {
  address: string;
  moments: Moments;
  random: Random;
  factor: number;
}

/** Mixed load from many clients until it is stopped. */
export async function startLoad({ address, moments, random, factor }: LoadOptions) {
  const open = (name: string, limits = {}) => openAccount(address, name, limits);
  const accounts = {
    plain: await open('plain'),
    rpm: await open('rpm', { rpm: LIMITS.rpm }),
    tpm: await open('tpm', { tpm: LIMITS.tpm }),
    concurrency: await open('concurrency', { concurrency: LIMITS.concurrency }),
    files: await open('files'),
    batches: await open('batches'),
    repeated: await open('repeated'),
    background: await open('background'),
  };
  // Replicas learn of new keys within a second.
  await sleep(1_500);
  const attempts = createAttempts();
  const caller = createCaller({ address, attempts });
  let isStopped = false;
  let retryUntilMs = Number.POSITIVE_INFINITY;
  const isOver = () => performance.now() > retryUntilMs;
  const inference = inferenceLanes(caller, random);
  const repeated = repeatedKeys(caller, { random, isOver });
  const files = fileLanes(caller, random);
  const { batches, inputs, batch } = batchLane(caller, {
    random,
    isOver,
    onCreated: () => moments.happened('batch-created'),
  });
  const { responses, background } = backgroundLane(caller, {
    random,
    isOver,
    onCreated: () => moments.happened('background-created'),
  });
  const budgets = budgetKeys({ caller, attempts, random, address });

  /** Work, clients, and their longest pause. */
  const lanes: [() => Promise<unknown>, number, number][] = [
    [() => inference.embedding(accounts.plain), 2, 100],
    [() => inference.chat(accounts.plain), 2, 100],
    [() => inference.stream(accounts.plain), 3, 100],
    [() => inference.embedding(accounts.rpm), 2, 150],
    [() => inference.embedding(accounts.tpm), 2, 150],
    [() => inference.stream(accounts.concurrency), 8, 100],
    [budgets.spend, 3, 100],
    [() => repeated.repeat(accounts.repeated), 3, 100],
    [() => files.upload(accounts.files), 2, 600],
    [() => files.download(accounts.files), 2, 300],
    [() => batch(accounts.batches), 2, 1_000],
    [() => background(accounts.background), 2, 300],
  ];
  const clients = lanes.flatMap(([work, count, pauseMs]) =>
    Array.from({ length: Math.max(1, Math.round(count * factor)) }, async () => {
      while (!isStopped) {
        const failures = attempts.failed();
        await work();
        await sleep(random.between(0, pauseMs) + (attempts.failed() > failures ? AFTER_A_FAILURE_MS : 0));
      }
    }),
  );

  return {
    accounts,
    attempts,
    files: files.files,
    problems: files.problems,
    batches,
    inputs,
    keys: repeated.keys,
    responses,
    budgetAccounts: budgets.accounts,
    async stop(): Promise<void> {
      isStopped = true;
      retryUntilMs = performance.now() + RETRY_MS;
      await Promise.all(clients);
    },
    /** Nothing that a dead replica held may be missing. Tried again: on a slow machine, replicas lose Redis for a moment. */
    async useAllPlaces(): Promise<string[]> {
      const { concurrency: account } = accounts;
      const places = Array.from({ length: LIMITS.concurrency });
      let served = 0;
      for (let attempt = 0; attempt < 10 && served < LIMITS.concurrency; attempt += 1) {
        if (attempt > 0) await sleep(AFTER_A_REFUSAL_MS);
        const answers = await Promise.all(places.map(() => caller.stream(account, chatOf(account, random, true))));
        served = answers.filter((answer) => answer === true).length;
      }
      return served === LIMITS.concurrency
        ? []
        : [`concurrency: only ${served} of ${LIMITS.concurrency} places are left`];
    },
  };
}

interface BudgetDependencies {
  caller: Caller;
  attempts: Attempts;
  random: Random;
  address: string;
}

/** Spends one budget after another: when an account is refused, the next one begins. */
function budgetKeys({ caller, attempts, random, address }: BudgetDependencies) {
  const accounts: Account[] = [];
  let opening: Promise<void> | undefined;

  async function openNext(): Promise<void> {
    const limits = { monthly_budget_usd: LIMITS.budgetUsd };
    accounts.push(await openAccount(address, `budget-${accounts.length + 1}-${random.between(0, 1e9)}`, limits));
  }

  async function spend(): Promise<void> {
    const account = accounts.at(-1);
    if (account !== undefined) {
      await caller.send(account, embeddingOf(account, random));
      if (attempts.of(account.name).at(-1)?.reason !== '429 budget_exceeded') return;
      if (account !== accounts.at(-1)) return;
    }
    opening ??= openNext()
      // PostgreSQL may be away: tried again with the next request.
      .catch(() => {})
      .finally(() => {
        opening = undefined;
      });
    await opening;
  }
  return { accounts, spend };
}
