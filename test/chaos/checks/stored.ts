import type { SentBatch } from '../load/batch-lane.ts';
import type { Account } from '../load/caller.ts';
import { sha256, type UploadedFile } from '../load/file-lanes.ts';
import type { RepeatedKey } from '../load/repeated-keys.ts';
import type { LedgerRow } from './ledger.ts';
import { patientGet } from './patient-get.ts';
import type { Progress } from './progress.ts';

interface Page<Item> {
  data: Item[];
  has_more: boolean;
}

async function listAll<Item extends { id: string }>(address: string, account: Account, path: string): Promise<Item[]> {
  const all: Item[] = [];
  for (let after = ''; ; after = `&after=${all.at(-1)?.id}`) {
    const page = (await (await patientGet(address, account, `${path}?limit=100${after}`)).json()) as Page<Item>;
    all.push(...page.data);
    if (!page.has_more) return all;
  }
}

const listFiles = (address: string, account: Account) =>
  listAll<{ id: string; filename: string; bytes: number }>(address, account, '/v1/files');

/** Acknowledged files are whole, deleted ones gone, and those whose upload failed are whole or not there. */
export async function checkFiles(address: string, account: Account, files: readonly UploadedFile[]): Promise<string[]> {
  const found: string[] = [];
  const listed = await listFiles(address, account);
  const ids = new Set(listed.map(({ id }) => id));
  for (const { id, deleted, name } of files) {
    if (id === undefined) continue;
    if (deleted === undefined && !ids.has(id)) found.push(`${id} (${name}) is lost`);
    if (deleted === 'sure' && ids.has(id)) found.push(`${id} (${name}) was deleted and is back`);
  }
  const byName = new Map(files.map((file) => [file.name, file]));
  for (const { id, filename } of listed) {
    const sent = byName.get(filename);
    if (sent === undefined) {
      found.push(`${id} (${filename}) was never sent`);
      continue;
    }
    const answer = await patientGet(address, account, `/v1/files/${id}/content`);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (!answer.ok) found.push(`${id} is listed and answers ${answer.status}`);
    else if (sha256(bytes) !== sent.sha256) found.push(`${id} has other bytes than were sent`);
  }
  return found;
}

/** An upload that is repeated under its idempotency key leaves one file. */
export async function checkInputs(address: string, account: Account, names: readonly string[]): Promise<string[]> {
  const listed = Map.groupBy(await listFiles(address, account), ({ filename }) => filename);
  return names.flatMap((name) => {
    const files = listed.get(name) ?? [];
    return files.length > 1 ? [`${name} was uploaded under one key and is there ${files.length} times`] : [];
  });
}

interface BatchState {
  id: string;
  status: string;
  output_file_id?: string | null;
  error_file_id?: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

const ENDED = ['completed', 'failed', 'expired', 'cancelled'];

/** Lines with a result and batches that have ended. */
export async function batchProgress(address: string, account: Account, sent: readonly SentBatch[]): Promise<Progress> {
  // One request for many batches: on a slow machine, one for each would take what the lines need.
  const ids = new Set(sent.map(({ id }) => id));
  const states = (await listAll<BatchState>(address, account, '/v1/batches')).filter(({ id }) => ids.has(id));
  const lines = states.reduce((sum, { request_counts: counts }) => sum + counts.completed + counts.failed, 0);
  const ended = states.filter(({ status }) => ENDED.includes(status)).length;
  return { done: lines + ended, isOver: ended === sent.length };
}

/** Every line is once in the output and once in the ledger. */
export async function checkBatches(
  address: string,
  { account, batches, rows }: { account: Account; batches: readonly SentBatch[]; rows: readonly LedgerRow[] },
): Promise<string[]> {
  const found: string[] = [];
  for (const { id, lines } of batches) {
    const state = (await (await patientGet(address, account, `/v1/batches/${id}`)).json()) as BatchState;
    if (state.status !== 'completed' || state.request_counts.completed !== lines) {
      found.push(`${id} of ${lines} lines is ${state.status}: ${JSON.stringify(state.request_counts)}`);
      const errors = state.error_file_id
        ? await (await patientGet(address, account, `/v1/files/${state.error_file_id}/content`)).text()
        : '';
      if (errors !== '') found.push(`  its first error: ${errors.split('\n')[0]?.slice(0, 300)}`);
    }
    const output = state.output_file_id
      ? await (await patientGet(address, account, `/v1/files/${state.output_file_id}/content`)).text()
      : '';
    const ids = output
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
    if (ids.length !== lines || new Set(ids).size !== lines)
      found.push(`${id}: ${ids.length} output lines, ${new Set(ids).size} different ones, of ${lines}`);
    const billed = rows.filter(({ billingId }) => billingId.startsWith(`${id}:`)).length;
    if (billed !== lines) found.push(`${id}: ${billed} of ${lines} lines are billed`);
  }
  const all = rows.filter((row) => row.account === account.name).length;
  const lines = batches.reduce((sum, batch) => sum + batch.lines, 0);
  if (all !== lines) found.push(`batches: ${all} rows in the ledger for ${lines} lines`);
  return found;
}

/** One answer for each key, billed once. What a client has cancelled is billed too, and its retry is another run. */
export function checkKeys(
  account: Account,
  { keys, rows, cancelled }: { keys: readonly RepeatedKey[]; rows: readonly LedgerRow[]; cancelled: number },
): string[] {
  const found = keys.flatMap(({ key, bodies }) => {
    if (bodies.size <= 1) return [];
    return [
      `key ${key}: ${bodies.size} different answers: ${[...bodies].map((body) => body.slice(0, 200)).join(' | ')}`,
    ];
  });
  const unanswered = keys.filter(({ answers }) => answers === 0).length;
  if (unanswered > 0) found.push(`${unanswered} keys got no answer although all parts work`);
  const billed = rows.filter((row) => row.account === account.name).length;
  const answered = keys.length - unanswered;
  if (billed < answered || billed > keys.length + cancelled)
    found.push(`${account.name}: ${answered} keys were answered, ${billed} requests billed`);
  return found;
}
