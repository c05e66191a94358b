import { BATCH_ENDPOINTS, type BatchEndpoint, type BatchProblem } from './batch.ts';

export const MAX_BATCH_LINES = 50_000;
export const MAX_BATCH_BYTES = 200_000_000;
/** The largest body of a line; more than the longest list of inputs needs. */
export const MAX_LINE_BYTES = 8_388_608;
const MAX_CUSTOM_ID_CHARACTERS = 512;

/** One line of the input as it was read. `text` is missing where the line was too long or no UTF-8. */
export interface RawLine {
  /** From 1, blank lines counted. */
  number: number;
  text: string | undefined;
  problem?: string | undefined;
}

export interface BatchRequest {
  customId: string;
  body: unknown;
}

export type ParsedLine =
  | { request: BatchRequest; problem?: undefined }
  | { request?: undefined; customId: string | null; problem: BatchProblem };

/** What a line says, or what is wrong with it. The body is checked when it runs, as that of any request. */
export function parseLine({ number, text, problem }: RawLine, endpoint: BatchEndpoint): ParsedLine {
  let customId: string | null = null;
  const bad = (code: string, message: string, param: string | null = null): ParsedLine => ({
    customId,
    problem: { code, message, param, line: number },
  });
  if (text === undefined) return bad('invalid_json_line', problem ?? 'This line cannot be read.');
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return bad('invalid_json_line', 'This line is not valid JSON.');
  }
  if (typeof line !== 'object' || line === null || Array.isArray(line)) {
    return bad('invalid_json_line', 'This line is not a JSON object.');
  }
  const { custom_id: id, method, url, body } = line as Record<string, unknown>;
  if (typeof id !== 'string' || id === '') {
    return bad('missing_custom_id', "'custom_id' must be a string that is not empty.", 'custom_id');
  }
  if (id.length > MAX_CUSTOM_ID_CHARACTERS) {
    return bad('invalid_custom_id', `'custom_id' may have ${MAX_CUSTOM_ID_CHARACTERS} characters.`, 'custom_id');
  }
  customId = id;
  if (method !== 'POST') return bad('invalid_method', "'method' must be 'POST'.", 'method');
  if (url !== endpoint) {
    const known = (BATCH_ENDPOINTS as readonly unknown[]).includes(url);
    const message = known ? `'url' must be '${endpoint}', the endpoint of the batch.` : `'url' must be '${endpoint}'.`;
    return bad('mismatched_url', message, 'url');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return bad('invalid_body', "'body' must be a JSON object.", 'body');
  }
  return { request: { customId: id, body } };
}

/** How a line ended: what its answer would have been, or why there was none. */
export type LineResult =
  | { status: number; requestId: string; body: Uint8Array }
  | { problem: Pick<BatchProblem, 'code' | 'message'> };

export const succeeded = (result: LineResult): boolean => 'status' in result && result.status < 400;

/** A line of the output or error file. Bodies are put in as the bytes they already are. */
export function writeResult(id: string, customId: string | null, result: LineResult): Buffer {
  const head = `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)},"response":`;
  if ('problem' in result) {
    const { code, message } = result.problem;
    return Buffer.from(`${head}null,"error":${JSON.stringify({ code, message })}}\n`);
  }
  const { status, requestId, body } = result;
  return Buffer.concat([
    Buffer.from(`${head}{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":`),
    body,
    Buffer.from('},"error":null}\n'),
  ]);
}
