import { BATCH_ENDPOINTS, type ParsedLine } from '@baobab/core/domain/batch.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { LineFormat } from '../../../services/batches/line-format.ts';
import { parseJsonBytes } from '../../body/json-value.ts';

const MAX_CUSTOM_ID_CHARACTERS = 512;

interface WrittenLine {
  custom_id: string | null;
  response: { status_code: number; body: unknown } | null;
  error: { code: string; message: string } | null;
}
const NO_PROBLEM = { code: 'internal_error', message: 'The error of this line is not known.' };

/** The JSONL format of batch files. */
export const lineFormat: LineFormat = {
  async parse({ number, bytes, problem }, endpoint) {
    let customId: string | null = null;
    const bad = (code: string, message: string, param: string | null = null): ParsedLine => ({
      customId,
      problem: { code, message, param, line: number },
    });
    if (bytes === undefined) return bad('invalid_json_line', problem ?? 'This line cannot be read.');
    let line: unknown;
    try {
      line = await parseJsonBytes(bytes);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return bad('invalid_json_line', error.message.replace('The request body', 'This line'));
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
      const message = known
        ? `'url' must be '${endpoint}', the endpoint of the batch.`
        : `'url' must be '${endpoint}'.`;
      return bad('mismatched_url', message, 'url');
    }
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      return bad('invalid_body', "'body' must be a JSON object.", 'body');
    }
    return { request: { customId: id, body } };
  },

  duplicateId: (line, firstLine) => ({
    code: 'duplicate_custom_id',
    message: `'custom_id' is the same as in line ${firstLine}.`,
    param: 'custom_id',
    line,
  }),

  write({ id, customId, result }) {
    const head = `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)},"response":`;
    if ('problem' in result) {
      const { code, message } = result.problem;
      return Buffer.from(`${head}null,"error":${JSON.stringify({ code, message })}}\n`);
    }
    const { status, requestId, body, truncated } = result;
    // As in the head of an answer over HTTP.
    const cut = truncated === undefined ? '' : `"truncated_inputs":${truncated},`;
    // The body is JSON already.
    return Buffer.concat([
      Buffer.from(`${head}{"status_code":${status},"request_id":${JSON.stringify(requestId)},${cut}"body":`),
      body,
      Buffer.from('},"error":null}\n'),
    ]);
  },

  read(bytes) {
    const { custom_id: customId, response, error } = JSON.parse(bytes.toString('utf8')) as WrittenLine;
    if (response === null) return { customId, result: { problem: error ?? NO_PROBLEM } };
    return { customId, result: { status: response.status_code, body: response.body } };
  },
};
