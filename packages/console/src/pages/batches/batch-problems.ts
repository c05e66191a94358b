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

/** What the first line of an input file asks for. Undefined: it is not readable as a line. */
export function firstLine(text: string): { url?: string; model?: string } | undefined {
  try {
    const line = JSON.parse(text.split('\n', 1)[0] ?? '') as { url?: unknown; body?: { model?: unknown } | null };
    const { url } = line;
    const model = line.body?.model;
    return { ...(typeof url === 'string' && { url }), ...(typeof model === 'string' && { model }) };
  } catch {
    return undefined;
  }
}

/** Reads the error file of a batch: one JSON object a line, perhaps cut off at the end. */
export function parseProblems(text: string, most: number): LineProblem[] {
  const problems: LineProblem[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    if (problems.length === most) break;
    try {
      const { custom_id: id, error, response } = JSON.parse(line) as ErrorLine;
      const found = error ?? response?.body?.error;
      problems.push({
        // A line that cannot be read has none.
        name: id || '–',
        code: found?.code ?? String(response?.status_code ?? ''),
        message: found?.message ?? '',
      });
    } catch {
      // The last line of a text that was cut.
    }
  }
  return problems;
}
