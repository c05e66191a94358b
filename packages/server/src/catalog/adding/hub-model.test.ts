import { afterEach, describe, expect, it } from 'vitest';
import { ggufFile } from '../../../../engines/src/llama/testing/gguf-file.ts';
import { drivers } from '../../drivers.ts';
import { draftHubModel } from './hub-model.ts';
import { parseLocation } from './reference.ts';
import { type LocalServer, startLocalServer } from './testing/local-server.ts';

const COMMIT = 'c'.repeat(40);
const open: LocalServer[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

const sibling = (rfilename: string) => ({ rfilename, size: 10, lfs: { sha256: 'a'.repeat(64), size: 10 } });

/** `files` are answered from the pinned commit. */
async function hub(repo: string, answer: object, files: Record<string, unknown> = {}) {
  const server = await startLocalServer({
    [`/api/models/${repo}/revision/main?blobs=true`]: { sha: COMMIT, ...answer },
    ...Object.fromEntries(Object.entries(files).map(([name, body]) => [`/${repo}/resolve/${COMMIT}/${name}`, body])),
  });
  open.push(server);
  const draft = (text: string, options = {}) => {
    const location = parseLocation(text, '/') as Extract<ReturnType<typeof parseLocation>, { kind: 'hub' }>;
    return draftHubModel(location, options, { endpoint: server.address, fetch, drivers });
  };
  return { draft, requests: server.requests };
}

describe('a GGUF model of the hub', () => {
  const repo = 'Qwen/Qwen3-4B-GGUF';
  const answer = {
    cardData: { license: 'apache-2.0' },
    siblings: ['README.md', 'Qwen3-4B-Q4_K_M.gguf', 'Qwen3-4B-Q8_0.gguf', 'mmproj-F16.gguf'].map(sibling),
  };
  const header = (fields: Parameters<typeof ggufFile>[0]) => ggufFile({ 'general.architecture': 'qwen3', ...fields });
  const chat = header({ 'qwen3.context_length': 40_960, 'qwen3.embedding_length': 2560 });

  it('gets the file of the quantization, pinned to a commit, with its hash', async () => {
    const { draft } = await hub(repo, answer, { 'Qwen3-4B-Q8_0.gguf': chat });
    const { entry } = await draft(`hf:${repo}:Q8_0`);
    expect(entry).toMatchObject({
      slug: 'qwen/qwen3-4b',
      modality: 'chat',
      license: 'apache-2.0',
      context_length: 40_960,
    });
    expect(entry.source).toEqual({
      kind: 'hf',
      repo,
      revision: COMMIT,
      files: [{ as: 'Qwen3-4B-Q8_0.gguf', path: 'Qwen3-4B-Q8_0.gguf', sha256: 'a'.repeat(64), bytes: 10 }],
    });
  });

  it('is inspected by its first bytes only', async () => {
    const large = Buffer.concat([
      header({ 'qwen3.context_length': 512, 'qwen3.embedding_length': 1024, 'qwen3.pooling_type': 3 }),
      Buffer.alloc(8_000_000),
    ]);
    const { draft, requests } = await hub(repo, answer, { 'Qwen3-4B-Q4_K_M.gguf': large });
    expect((await draft(`hf:${repo}`)).entry).toMatchObject({ modality: 'embedding', dimensions: 1024 });
    expect(requests.at(-1)).toBe(`/${repo}/resolve/${COMMIT}/Qwen3-4B-Q4_K_M.gguf bytes=0-262143`);
  });

  it('that comes in parts is taken whole', async () => {
    const parts = ['Q4_K_M/Large-Q4_K_M-00001-of-00002.gguf', 'Q4_K_M/Large-Q4_K_M-00002-of-00002.gguf'];
    const others = ['Q8_0/Large-Q8_0-00001-of-00003.gguf', 'Q8_0/Large-Q8_0-00002-of-00003.gguf'];
    const siblings = [...parts, ...others].toReversed().map(sibling);
    const { draft } = await hub(repo, { siblings }, { [parts[0] ?? '']: chat });
    for (const name of [repo, `${repo}:Q4_K_M`, ...parts.map((part) => `${repo}:${part}`)]) {
      const { entry, longSlug } = await draft(`hf:${name}`);
      expect(entry.source).toMatchObject({ files: parts.map((path) => ({ path, as: path.split('/')[1] })) });
      expect(entry.context_length).toBe(40_960);
      expect(longSlug).toBe('qwen/large-q4_k_m');
    }
    await expect(draft(`hf:${repo}:Q8_0`)).rejects.toThrow(
      'does not have all parts of the model: Q8_0/Large-Q8_0-00003-of-00003.gguf',
    );
  });

  it('in one file is preferred to the same in parts', async () => {
    const siblings = [...[1, 2].map((part) => `L-Q4_K_M-0000${part}-of-00002.gguf`), 'L-Q4_K_M.gguf'].map(sibling);
    const { draft } = await hub(repo, { siblings }, { 'L-Q4_K_M.gguf': chat });
    expect((await draft(`hf:${repo}:Q4_K_M`)).entry.source).toMatchObject({ files: [{ as: 'L-Q4_K_M.gguf' }] });
  });

  it('that has no such file is refused with those it has', async () => {
    const { draft } = await hub(repo, answer);
    await expect(draft(`hf:${repo}:Q2_K`)).rejects.toThrow(/no file 'Q2_K'.*Qwen3-4B-Q4_K_M\.gguf/);
  });
});

describe('an ONNX model of the hub', () => {
  it('gets its weights, tokenizer and configs, and pools as the hub says', async () => {
    const names = ['onnx/model.onnx', 'onnx/model.onnx_data', 'tokenizer.json', 'config.json', '1_Pooling/config.json'];
    const { draft } = await hub(
      'acme/encoder',
      { siblings: [...names, 'pytorch_model.bin'].map(sibling) },
      {
        'config.json': { model_type: 'xlm-roberta', hidden_size: 1024, max_position_embeddings: 8194 },
        '1_Pooling/config.json': { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false },
      },
    );
    const { entry } = await draft('hf:acme/encoder');
    expect(entry).toMatchObject({
      modality: 'embedding',
      dimensions: 1024,
      context_length: 8192,
      engine: { pooling: 'cls' },
    });
    const { files } = entry.source as { files: { as: string }[] };
    expect(files.map(({ as }) => as)).toEqual(names.slice(0, 4));
  });

  it('of Whisper gets both halves and what they need', async () => {
    const names = [
      'onnx/encoder_model_quantized.onnx',
      'onnx/decoder_model_merged_quantized.onnx',
      'tokenizer.json',
      'config.json',
      'generation_config.json',
    ];
    const { draft } = await hub(
      'acme/ears',
      { siblings: [...names, 'onnx/decoder_model.onnx'].map(sibling) },
      { 'config.json': { model_type: 'whisper', max_target_positions: 448 } },
    );
    const { entry } = await draft('hf:acme/ears');
    expect(entry).toMatchObject({ modality: 'audio', context_length: 448 });
    await expect(draft('hf:acme/ears', { modality: 'chat' })).rejects.toThrow('leave the option out');
    const { files } = entry.source as { files: { as: string }[] };
    expect(files.map(({ as }) => as)).toEqual(names);
  });

  it('of CLIP gets both encoders and takes images', async () => {
    const names = [
      'config.json',
      'onnx/text_model_quantized.onnx',
      'onnx/vision_model_quantized.onnx',
      'preprocessor_config.json',
      'tokenizer.json',
    ];
    const config = { model_type: 'clip', projection_dim: 512, text_config: {}, vision_config: {} };
    const siblings = [...names, 'onnx/model_quantized.onnx', 'onnx/vision_model.onnx'].map(sibling);
    const { draft } = await hub('acme/clip', { siblings }, { 'config.json': config });
    const { entry, notes } = await draft('hf:acme/clip');
    expect(entry).toMatchObject({
      modality: 'embedding',
      dimensions: 512,
      context_length: 77,
      capabilities: { vision: true },
    });
    expect(notes).toBeUndefined();
    const { files } = entry.source as { files: { as: string }[] };
    expect(files.map(({ as }) => as)).toEqual(names);
  });

  it('that is neither is refused', async () => {
    const { draft } = await hub('acme/torch', { siblings: [sibling('pytorch_model.bin')] });
    await expect(draft('hf:acme/torch')).rejects.toThrow('neither GGUF files nor an ONNX model');
  });
});
