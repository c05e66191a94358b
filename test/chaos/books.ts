/**
 * Audits the books of one chaos run: the ledger in PostgreSQL against the log of the engine and what clients wrote down. It shares no
 * code with the servers or with the checks of the run, and reads only tables and files.
 *
 *   node test/chaos/books.ts <postgres address> <directory with engine.jsonl and clients.json>
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';

interface Call {
  account: string;
  job?: string;
  promptTokens: number;
  completionTokens: number;
}

interface Clients {
  attempts: {
    account: string;
    outcome: string;
    requestId?: string;
    promptTokens: number;
    completionTokens: number;
  }[];
  batches: { id: string; name: string; lines: number }[];
  responses: { id: string; name: string; status: string }[];
  keys: { answers: number }[];
  /** Requests with a key whose client has left: these are billed, and run again. */
  cancelled: number;
}

interface Row {
  billing_id: string;
  request_id: string;
  account: string;
  model: string;
  prompt: string;
  completion: string;
  cost: string;
  discount: number;
}

/** Nano-USD for a token, read in the catalog by a person. */
const PRICES: Record<string, { prompt: number; completion: number }> = {
  'mistralai/mistral-small-3.2-24b-instruct': { prompt: 200, completion: 600 },
  'intfloat/e5-mistral-7b-instruct': { prompt: 100, completion: 0 },
};
/** Accounts whose clients do more than ask for one answer each time. */
const JOBS = { batches: 'batches', background: 'background', keys: 'repeated' };

const [store = '', directory = ''] = process.argv.slice(2);
const read = (name: string) => readFileSync(join(directory, name), 'utf8');
const calls: Call[] = read('engine.jsonl')
  .split('\n')
  .filter(Boolean)
  .map((line) => JSON.parse(line));
const { attempts, batches, responses, keys, cancelled }: Clients = JSON.parse(read('clients.json'));

const client = new Client(store);
await client.connect();
const ask = async <T>(sql: string): Promise<T[]> => (await client.query(sql)).rows;
const ledger = await ask<Row>(`
  select billing_id, request_id, a.name as account, model, prompt_tokens as prompt, completion_tokens as completion,
    cost_nano_usd as cost, discount_percent as discount
  from ledger l join ledger_series s on s.id = l.series_id join accounts a on a.id = s.account_id`);
const sums: Record<string, string> = {};
for (const table of ['ledger', 'usage_quarters', 'usage_hours', 'usage_days']) {
  const requests = table === 'ledger' ? 'count(*)' : 'sum(requests)';
  const [row] = await ask(
    `select ${requests} as requests, sum(prompt_tokens) as prompt, sum(completion_tokens) as completion, sum(cost_nano_usd) as cost from ${table}`,
  );
  sums[table] = JSON.stringify(row);
}
await client.end();

const wrong: string[] = [];
const expect = (isTrue: boolean, text: string) => {
  if (!isTrue) wrong.push(text);
};
const countBy = <T>(items: readonly T[], keyOf: (item: T) => string | undefined): Map<string, T[]> => {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    if (key === undefined) continue;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
};

// Prices and sums.
for (const { billing_id, model, prompt, completion, cost, discount, account } of ledger) {
  const price = PRICES[model] ?? { prompt: Number.NaN, completion: Number.NaN };
  const full = Number(prompt) * price.prompt + Number(completion) * price.completion;
  expect(
    Number(cost) === Math.round((full * (100 - discount)) / 100),
    `${billing_id} costs ${cost}, not ${full} less ${discount} %`,
  );
  expect(discount === 0 || account === JOBS.batches, `${billing_id} of ${account} has a discount of ${discount} %`);
}
for (const [table, sum] of Object.entries(sums))
  expect(sum === sums.ledger, `${table} adds up to ${sum}, the ledger to ${sums.ledger}`);

// Answered ≤ billed ≤ run, for each account and each amount.
const billedOf = countBy(ledger, ({ account }) => account);
const runOf = countBy(calls, ({ account }) => account);
const add = (values: readonly (number | string)[]) => values.reduce<number>((sum, value) => sum + Number(value), 0);
for (const [account, rows] of billedOf) {
  const run = runOf.get(account) ?? [];
  expect(rows.length <= run.length, `${account}: ${rows.length} billed, ${run.length} run`);
  const billedPrompt = add(rows.map(({ prompt }) => prompt));
  const runPrompt = add(run.map(({ promptTokens }) => promptTokens));
  expect(billedPrompt <= runPrompt, `${account}: ${billedPrompt} prompt tokens billed, ${runPrompt} run`);
  const billedCompletion = add(rows.map(({ completion }) => completion));
  const runCompletion = add(run.map(({ completionTokens }) => completionTokens));
  expect(
    billedCompletion <= runCompletion,
    `${account}: ${billedCompletion} completion tokens billed, ${runCompletion} run`,
  );
}
const rowsOfRequest = countBy(ledger, ({ request_id }) => request_id);
let answered = 0;
for (const { account, outcome, requestId = '', promptTokens, completionTokens } of attempts) {
  if (outcome !== 'acknowledged' || promptTokens === 0 || Object.values(JOBS).includes(account)) continue;
  answered += 1;
  const [row, second] = rowsOfRequest.get(requestId) ?? [];
  expect(
    row !== undefined && second === undefined,
    `${requestId} was answered and billed ${row === undefined ? 'never' : 'twice'}`,
  );
  expect(
    row === undefined || (Number(row.prompt) === promptTokens && Number(row.completion) === completionTokens),
    `${requestId}: ${promptTokens} + ${completionTokens} tokens answered, ${row?.prompt} + ${row?.completion} billed`,
  );
}

// Each line of a batch and each background response is billed once, and ran.
const runsOfJob = countBy(calls, ({ job }) => job);
const billedLines = new Set(
  ledger.filter(({ account }) => account === JOBS.batches).map(({ billing_id }) => billing_id),
);
let lines = 0;
let lineRuns = 0;
for (const { id, name, lines: count } of batches) {
  for (let line = 0; line < count; line += 1) {
    lines += 1;
    lineRuns += runsOfJob.get(`${name}:${line}`)?.length ?? 0;
    expect(runsOfJob.has(`${name}:${line}`), `line ${line} of ${id} never ran`);
  }
  const billed = [...billedLines].filter((billingId) => billingId.startsWith(`${id}:`)).length;
  expect(billed === count, `${id}: ${billed} of ${count} lines are billed`);
}
expect(billedLines.size === lines, `${billedLines.size} lines are billed, ${lines} were sent`);
const completed = responses.filter(({ status }) => status === 'completed');
for (const { id, name } of completed) expect(runsOfJob.has(name), `${id} never ran`);
const background = billedOf.get(JOBS.background)?.length ?? 0;
expect(
  background >= completed.length && background <= responses.length,
  `${background} background responses are billed, ${completed.length} of ${responses.length} were completed`,
);
const once = billedOf.get(JOBS.keys)?.length ?? 0;
const answeredKeys = keys.filter(({ answers }) => answers > 0).length;
expect(
  once >= answeredKeys && once <= keys.length + cancelled,
  `${answeredKeys} of ${keys.length} keys were answered, ${once} billed`,
);

console.log(
  `books: ${ledger.length} rows and ${add(ledger.map(({ cost }) => cost))} nano-USD; ${answered} answers, ${lines} lines that ran ${lineRuns} times, ${responses.length} background responses, ${keys.length} keys`,
);
for (const text of wrong) console.log(text);
process.exitCode = wrong.length === 0 ? 0 : 1;
