/** The part of WebAssembly that is used here. Node has it, its types do not. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: object;
  }
  class RuntimeError extends Error {}
  class Memory {
    readonly buffer: ArrayBuffer;
  }
}
