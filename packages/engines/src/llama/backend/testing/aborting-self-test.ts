/** What the CUDA package prints on a machine whose driver is too old for its kernels, before it aborts. */
process.stderr.write(
  [
    'ggml_cuda_init: found 1 CUDA devices',
    'CUDA error: the provided PTX was compiled with an unsupported toolchain.',
    '  current device: 0, in function ggml_cuda_kernel_can_use_pdl',
    'ggml/src/ggml-cuda/ggml-cuda.cu:100: CUDA error',
  ].join('\n'),
  () => process.abort(),
);
