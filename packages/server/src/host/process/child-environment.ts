/** Keys and tokens in the server's environment stay in the server. */
const PASSED_ON = /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|CUDA_[A-Z_]+|VK_[A-Z_]+|SystemRoot)$/;

/** Since 1.29, onnxruntime reports models and machines to Microsoft unless this is set before it is loaded. Nothing here reports to anyone. */
const NO_REPORTS = { ORT_DISABLE_TELEMETRY: '1' };

/** The variables that child processes get. */
export function childEnvironment(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const entries = Object.entries(environment).filter(
    (entry): entry is [string, string] => PASSED_ON.test(entry[0]) && entry[1] !== undefined,
  );
  return { ...Object.fromEntries(entries), ...NO_REPORTS };
}
