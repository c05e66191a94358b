import { WhisperFeatureExtractor } from '@huggingface/transformers';
import { describe, expect, it } from 'vitest';
import { createLogMel } from './log-mel.ts';

const reference = new WhisperFeatureExtractor({
  feature_size: 80,
  sampling_rate: 16_000,
  hop_length: 160,
  chunk_length: 30,
  n_fft: 400,
  n_samples: 480_000,
  nb_max_frames: 3000,
  padding_value: 0,
});

describe('createLogMel', () => {
  const logMel = createLogMel(80, 480_000);

  it.each([0.37, 12.5, 30])('agrees with the reference feature extractor for %d s', async (seconds) => {
    let state = 7;
    const samples = Float32Array.from({ length: Math.round(seconds * 16_000) }, (_, i) => {
      state = (state * 48_271) % 2_147_483_647;
      return 0.4 * Math.sin(i * i * 1e-6) + 0.1 * (state / 2_147_483_647 - 0.5);
    });
    const expected = (await reference._call(samples)).input_features.data as Float32Array;
    const features = logMel(samples);
    expect(features).toHaveLength(expected.length);
    const furthest = features.reduce((most, value, i) => Math.max(most, Math.abs(value - (expected[i] ?? 0))), 0);
    expect(furthest).toBeLessThan(1e-4);
  });
});
