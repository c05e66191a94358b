import { describe, expect, it } from 'vitest';
import { failureFromAnswer, sanitize } from './error-answer.ts';
import { failureFromTransport } from './failure.ts';

const request = { slug: 'acme/model', upstreamName: 'org/Secret-7B', contextLength: 4096, field: ['messages'] };
const failed = (status: number, body: unknown, retryAfter?: string) =>
  failureFromAnswer(status, body, request, retryAfter);

describe('context errors of the upstreams', () => {
  it.each([
    [
      'vLLM',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
          type: 'BadRequestError',
          param: null,
          code: 400,
        },
      },
    ],
    [
      'older vLLM',
      400,
      {
        object: 'error',
        message:
          "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.",
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    ],
    [
      'llama-server',
      400,
      {
        error: {
          code: 400,
          message: 'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 5000,
          n_ctx: 4096,
        },
      },
    ],
    [
      'Ollama, with the answer of its llama-server as a text',
      400,
      {
        error:
          '{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}',
      },
    ],
    [
      'TEI',
      413,
      {
        error: 'Input validation error: `inputs` must have less than 4096 tokens. Given: 5000',
        error_type: 'Validation',
      },
    ],
    [
      'OpenAI',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
          type: 'invalid_request_error',
          param: 'messages',
          code: 'context_length_exceeded',
        },
      },
    ],
    [
      'an older Baobab',
      422,
      {
        error: {
          message: "'messages' has 5000 tokens, but this model takes at most 4096. Shorten it or split it.",
          type: 'invalid_request_error',
          param: 'messages',
          code: 'context_length_exceeded',
        },
      },
    ],
  ])('%s: 422 with the numbers', (_name, status, body) => {
    const { kind, apiError } = failed(status, body);
    expect(kind).toBe('rejected');
    expect([apiError.status, apiError.code, apiError.param]).toEqual([422, 'context_length_exceeded', 'messages']);
    expect(apiError.message).toBe(
      "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens. Shorten 'messages' or split it.",
    );
  });

  it("reads llama-server's 500 for an embedding over its batch", () => {
    const { apiError } = failed(500, {
      error: {
        code: 500,
        message: 'input is too large to process. increase the physical batch size',
        type: 'server_error',
      },
    });
    expect(apiError.code).toBe('context_length_exceeded');
    expect(apiError.message).toContain('4096');
  });

  it('names the limit of the answer when it does not fit', () => {
    const { apiError } = failed(400, {
      error: {
        message:
          "'max_tokens' or 'max_completion_tokens' is too large: 10000. This model's maximum context length is 4096 tokens and your request has 23 input tokens (10000 > 4096 - 23).",
        type: 'BadRequestError',
        code: 400,
      },
    });
    expect([apiError.code, apiError.param]).toEqual(['context_length_exceeded', 'maxTokens']);
  });

  const vllm = (message: string) =>
    failed(400, { error: { message, type: 'BadRequestError', param: null, code: 400 } });

  it.each([
    'max_tokens=100000 cannot be greater than max_model_len=max_total_tokens=2048. Please request fewer output tokens.',
    "This model's maximum context length is 2048 tokens. However, you requested 2000 output tokens and your prompt contains 100 input tokens, for a total of 2100 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
  ])('names the limit of the answer with the numbers of newer vLLM: %s', (message) => {
    const { apiError } = vllm(message);
    expect([apiError.status, apiError.code, apiError.param]).toEqual([422, 'context_length_exceeded', 'maxTokens']);
    expect(apiError.message).toContain('2048 tokens');
  });

  it.each([
    "This model's maximum context length is 4097 tokens. However, you requested 4200 tokens (200 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.",
    "This model's maximum context length is 4097 tokens, however you requested 4200 tokens (200 in your prompt; 4000 for the completion). Please reduce your prompt; or completion length.",
  ])('names the limit of the answer with the numbers of OpenAI: %s', (message) => {
    const { apiError } = vllm(message);
    expect(apiError.param).toBe('maxTokens');
    expect(apiError.message).toBe(
      "This model's maximum context length is 4097 tokens. However, you requested 4200 tokens (200 in the messages, 4000 in the completion). Set 'maxTokens' to at most 3897 or shorten the prompt.",
    );
  });

  it("reads newer vLLM's count of the prompt, unless it stopped counting", () => {
    const text = (prompt: string) =>
      `This model's maximum context length is 512 tokens. However, you requested 0 output tokens and your prompt contains ${prompt} input tokens, for a total of ${prompt} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`;
    expect(vllm(text('700')).apiError.message).toContain('resulted in 700 tokens');
    const { message, param } = vllm(text('at least 513')).apiError;
    expect([param, message]).toEqual(['messages', expect.stringContaining('resulted in 513 tokens or more')]);
  });

  it('reads Ollama, which gives no numbers', () => {
    expect(failed(400, { error: 'the input length exceeds the context length' }).apiError.code).toBe(
      'context_length_exceeded',
    );
  });
});

describe('other answers', () => {
  it.each([
    { error: '{"error":{"code":400,"message":"Failed to parse grammar","type":"invalid_request_error"}}' },
    { error: { message: '{"error":{"code":400,"message":"Failed to parse grammar"}}', type: 'api_error' } },
  ])('passes on the message inside the text of an error of Ollama: %j', (body) => {
    expect(failed(400, body).apiError.message).toBe('The model refused the request: Failed to parse grammar');
  });

  it('passes on a text that only looks like an error answer', () => {
    expect(failed(400, { error: '{"error": broken' }).apiError.message).toContain('{"error": broken');
  });

  it('passes on a validation message without addresses, paths and the inner name', () => {
    const { kind, apiError } = failed(400, {
      error: {
        message:
          'top_p of org/Secret-7B must be in (0, 1], see http://10.0.0.7:8000/docs or /opt/vllm/serve.py at 10.0.0.7:8000',
        type: 'BadRequestError',
        param: 'top_p',
        code: 400,
      },
    });
    expect([kind, apiError.status, apiError.code, apiError.param]).toEqual([
      'rejected',
      400,
      'invalid_parameter',
      'top_p',
    ]);
    expect(apiError.message).toBe(
      'The model refused the request: top_p of acme/model must be in (0, 1], see … or … at …',
    );
  });

  it('keeps the message and the code of another Baobab', () => {
    const message = "The model 'org/Secret-7B' cannot use tools.";
    const { kind, apiError } = failed(422, {
      error: { message, type: 'invalid_request_error', code: 'unsupported_parameter', param: 'tools' },
    });
    expect([kind, apiError.status, apiError.code, apiError.param]).toEqual([
      'rejected',
      422,
      'unsupported_parameter',
      'tools',
    ]);
    expect(apiError.message).toBe("The model 'acme/model' cannot use tools.");
  });

  it('bounds the length of a message', () => {
    expect(sanitize('x'.repeat(10_000), request)).toHaveLength(300);
  });

  it("reads FastAPI's detail", () => {
    const { apiError } = failed(422, { detail: [{ loc: ['body', 'seed'], msg: 'Input should be a valid integer' }] });
    expect(apiError.code).toBe('invalid_parameter');
    expect(apiError.message).toContain('Input should be a valid integer');
  });

  it.each([401, 402, 403, 404, 405])('hides a wrong setup from the client (%i)', (status) => {
    const { kind, apiError, detail } = failed(status, {
      error: { message: 'The model `org/Secret-7B` does not exist.' },
    });
    expect([kind, apiError.status, apiError.code]).toEqual(['broken', 503, 'model_unavailable']);
    expect(apiError.message).not.toContain('Secret');
    expect(detail).toContain('Secret');
  });

  it.each([
    [undefined, 1],
    ['7', 7],
    ['3600', 60],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 1],
  ])('maps 429 with Retry-After %s to a full queue with a retry in %i s', (given, seconds) => {
    const { kind, apiError } = failed(429, { error: 'Model is overloaded', error_type: 'Overloaded' }, given);
    expect([kind, apiError.code, apiError.retryAfterSeconds]).toEqual(['busy', 'capacity_exceeded', seconds]);
  });

  it.each([
    [500, 'model_unavailable'],
    [502, 'model_unavailable'],
    [503, 'model_unavailable'],
    [424, 'model_unavailable'],
    [504, 'upstream_timeout'],
    [408, 'upstream_timeout'],
  ])('maps %i to %s', (status, code) => {
    expect(failed(status, 'proxy says no').apiError.code).toBe(code);
  });

  it.each([
    'The model produced output that does not match the expected peg-native format',
    'Failed to parse input at pos 12: <tool_call>{"name": weather}',
  ])('says that the answer could not be parsed: %s', (message) => {
    const { kind, apiError } = failed(500, { error: { code: 500, message, type: 'server_error' } });
    expect([kind, apiError.status, apiError.code]).toEqual(['unparsed', 503, 'model_unavailable']);
    expect(apiError.retryAfterSeconds).toBe(1);
    expect(apiError.message).toBe(`The model 'acme/model' wrote an answer that its engine cannot parse: ${message}.`);
  });

  it.each([
    ['Ollama', 501, { error: 'This server does not support embeddings. Start it with `--embeddings`' }, ['inputs']],
    [
      'llama-server',
      501,
      {
        error: {
          code: 501,
          message: 'This server does not support reranking. Start it with `--reranking`',
          type: 'not_supported_error',
        },
      },
      ['documents', 3],
    ],
    ['TEI', 424, { error: 'model is not a re-ranker model', error_type: 'Backend' }, ['documents']],
    ['Ollama with an embedding model', 400, { error: '"embedder" does not support chat' }, ['messages']],
    ['older vLLM', 400, { object: 'error', message: 'The model does not support Embeddings API' }, ['inputs', 0]],
    [
      'Baobab',
      422,
      { error: { message: "The model 'x' is of modality 'chat'.", code: 'wrong_modality', param: 'model' } },
      ['inputs'],
    ],
  ] as const)('%s was not started for the request: 422 with a remedy', (_name, status, body, field) => {
    const { kind, apiError } = failureFromAnswer(status, body, { ...request, field });
    expect([kind, apiError.status, apiError.code, apiError.param]).toEqual(['unfit', 422, 'wrong_modality', 'model']);
    const modality = { inputs: 'embedding', documents: 'rerank', messages: 'chat' }[field[0]];
    expect(apiError.message).toMatch(
      /^The engine that runs the model 'acme\/model' refuses .*: \S.*[^.]\. Use another/,
    );
    expect(apiError.message).toContain(`GET /v1/models?modality=${modality}`);
  });

  it.each([
    ['messages', 500, 'image input is not supported - hint: you may need to provide the mmproj', 'takes no images'],
    ['messages', 400, 'Multimodal data provided, but model does not support multimodal requests.', 'takes no images'],
    ['tools', 400, 'registry.ollama.ai/library/small:latest does not support tools', 'cannot call tools'],
    ['tools', 400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser', 'cannot call tools'],
    ['reasoningEffort', 400, '"small" does not support thinking', 'does not reason'],
  ])("names '%s' when the engine cannot do what the catalog says: %i %s", (param, status, message, meaning) => {
    const { kind, apiError } = failed(status, { error: { message, code: status } });
    expect([kind, apiError.status, apiError.code, apiError.param]).toEqual([
      'rejected',
      422,
      'unsupported_parameter',
      param,
    ]);
    expect(apiError.message).toContain(`The model 'acme/model' ${meaning}: `);
  });

  it.each([
    [500, false],
    [502, false],
    [504, false],
    [424, false],
    [503, false],
    [401, true],
    [403, false],
    [404, false],
  ])('blames the upstream alone for %i: %s', (status, isUpstreamFault) => {
    expect(failed(status, {}).isUpstreamFault).toBe(isUpstreamFault);
  });

  it('distinguishes a refused connection from a broken one', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
    const reset = Object.assign(new Error('other side closed'), { code: 'ECONNRESET' });
    expect(failureFromTransport(refused, request.slug)).toMatchObject({ kind: 'broken', isUpstreamFault: true });
    expect(failureFromTransport(reset, request.slug)).toMatchObject({ kind: 'reset', isUpstreamFault: false });
    expect(failureFromTransport(refused, request.slug).apiError.message).not.toContain('127.0.0.1');
  });
});
