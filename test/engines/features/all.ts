import { chatFeatures } from './chat.ts';
import type { Feature } from './feature.ts';
import { imageFeatures } from './images.ts';
import { serverFeatures } from './server.ts';
import { toolFeatures } from './tools.ts';
import { vectorFeatures } from './vectors.ts';

export const allFeatures: readonly Feature[] = [
  ...chatFeatures,
  ...toolFeatures,
  ...vectorFeatures,
  ...imageFeatures,
  ...serverFeatures,
];
