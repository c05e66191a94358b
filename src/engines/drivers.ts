import type { Driver } from './driver.ts';
import { llama } from './llama/driver.ts';
import { onnx } from './onnx/driver.ts';
import { remote } from './remote/driver.ts';

/** Every driver. A new one is added here and nowhere else. */
export const drivers: readonly Driver[] = [onnx, llama, remote];

/** The drivers' part of the section `engines` of the configuration. */
export const driverSettings = { ...onnx.settings, ...llama.settings, ...remote.settings };
