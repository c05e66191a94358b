import {
  allTensors,
  ggufFile,
  HEADS,
  LAYERS,
  METADATA,
  type Meta,
  matrix,
  ones,
  WIDTH,
} from '../backend/test-model.ts';

const LABELS = ['yes', 'no'];

/** The model of the self-test as one that ranks: of the architecture of Qwen3, with a head that tells two labels. Its scores are arbitrary. */
export function rankingModel(): Buffer {
  const metadata = METADATA.map(([key, type, value]): Meta => {
    if (key === 'general.architecture') return [key, type, 'qwen3'];
    return [key.replace(/^llama\./, 'qwen3.'), type, value];
  });
  const norms = Array.from({ length: LAYERS }, (_, layer) => [
    ones(`blk.${layer}.attn_q_norm.weight`, WIDTH / HEADS),
    ones(`blk.${layer}.attn_k_norm.weight`, WIDTH / HEADS),
  ]);
  return ggufFile(
    [...metadata, ['qwen3.classifier.output_labels', 'text', LABELS]],
    [...allTensors(), ...norms.flat(), matrix('cls.output.weight', WIDTH, LABELS.length)],
  );
}
