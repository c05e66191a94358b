/** No empty segment and none that starts with a dot, so that a key cannot leave its directory or prefix or hit temporary files. */
const KEY = /^[\w-][\w.-]*(?:\/[\w-][\w.-]*)*$/;

export function requireBlobKey(key: string): string {
  if (!KEY.test(key)) throw new RangeError(`'${key}' is not a blob key`);
  return key;
}
