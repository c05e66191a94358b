import type { Driver } from '@baobab/core/engine/driver.ts';
import { llama } from '@baobab/engines/llama/driver.ts';
import { onnx } from '@baobab/engines/onnx/driver.ts';
import { remote } from '../upstreams/driver.ts';

/** Every driver. A new one is added here and nowhere else. */
export const drivers: readonly Driver[] = [onnx, llama, remote];

/** The drivers' part of the section `engines` of the configuration. */
export const driverSettings = { ...onnx.settings, ...llama.settings, ...remote.settings };
