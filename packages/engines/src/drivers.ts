import { llama } from './llama/driver.ts';
import { onnx } from './onnx/driver.ts';

/** Every driver that runs models on this machine. A new one is added here and nowhere else. */
export const drivers = [onnx, llama];
