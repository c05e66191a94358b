import { llama } from './llama/driver.ts';
import { onnx } from './onnx/driver.ts';

/** Every driver that runs models on this machine. `LOCAL_DRIVERS` of the server has their names, for servers without this package. */
export const drivers = [onnx, llama];
