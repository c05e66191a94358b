const HEAD_END = '\r\n\r\n';

/** The length of the HTTP message that a text begins with, head and body; undefined while its head is not all there. */
export function messageBytes(text: string): number | undefined {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return undefined;
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
  return headEnd + HEAD_END.length + bodyBytes;
}
