export interface LineProblem {
  name: string;
  code: string;
  message: string;
}

interface ErrorLine {
  custom_id?: string;
  error?: { code?: string; message?: string } | null;
  response?: { status_code?: number; body?: { error?: { code?: string; message?: string } } } | null;
}

/** The beginning of an answer, about `most` characters. The rest, which may be hundreds of megabytes, is not fetched. */
export async function readStart(body: ReadableStream<Uint8Array>, most: number): Promise<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = '';
  while (text.length < most) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}

/** Reads the error file of a batch: one JSON object a line, perhaps cut off at the end. */
export function parseProblems(text: string, most: number): LineProblem[] {
  const problems: LineProblem[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    if (problems.length === most) break;
    try {
      const { custom_id: name = '–', error, response } = JSON.parse(line) as ErrorLine;
      const found = error ?? response?.body?.error;
      problems.push({
        name,
        code: found?.code ?? String(response?.status_code ?? ''),
        message: found?.message ?? '',
      });
    } catch {
      // The last line of a text that was cut.
    }
  }
  return problems;
}
