/** What the answers of the endpoints have in common with each other. Everything may be missing. */
interface Shapes {
  type?: string;
  text?: string;
  delta?: string | { text?: string; partial_json?: string };
  choices?: {
    text?: string;
    message?: { content?: string | null; tool_calls?: unknown[] };
    delta?: { content?: string | null; tool_calls?: { function?: { name?: string; arguments?: string } }[] };
  }[];
  output?: { type?: string; name?: string; arguments?: string; content?: { text?: string }[] }[];
  content?: { text?: string; name?: string; input?: unknown }[];
}

const lines = (parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n');

/** The text of a whole answer: chat, completions, responses, messages and transcriptions. Others have none. */
function wholeText(answer: Shapes): string {
  const { choices = [], output = [], content = [], text } = answer;
  if (typeof text === 'string') return text;
  return lines([
    ...choices.map(({ message, text: completion }) =>
      lines([message?.content ?? completion ?? '', ...(message?.tool_calls ?? []).map((call) => JSON.stringify(call))]),
    ),
    ...output.map((item) =>
      item.type === 'function_call'
        ? JSON.stringify({ name: item.name, arguments: item.arguments })
        : lines((item.content ?? []).map((part) => part.text ?? '')),
    ),
    ...content.map(
      (block) => block.text ?? (block.name ? JSON.stringify({ name: block.name, input: block.input }) : ''),
    ),
  ]);
}

/** The text that one event of a stream adds. */
function eventText({ type, delta, choices = [] }: Shapes): string {
  // Whole texts at the end of a stream repeat what was sent.
  if (typeof delta === 'string') return type === undefined || type.endsWith('.delta') ? delta : '';
  if (delta !== undefined) return delta.text ?? delta.partial_json ?? '';
  return choices
    .map(({ text, delta: part }) => {
      const calls = (part?.tool_calls ?? []).map(
        (call) => `${call.function?.name ?? ''}${call.function?.arguments ?? ''}`,
      );
      return (part?.content ?? text ?? '') + calls.join('');
    })
    .join('');
}

function parse(text: string): Shapes {
  try {
    return (JSON.parse(text) ?? {}) as Shapes;
  } catch {
    // Cut off, or an end mark such as [DONE].
    return {};
  }
}

/** The text in the body of an answer, or in the events of a stream; null if there is none. */
export function answerText(body: string, contentType: string): string | null {
  if (contentType.startsWith('text/plain') || contentType.startsWith('text/vtt')) return body || null;
  if (!contentType.startsWith('text/event-stream')) return wholeText(parse(body)) || null;
  const events = body.split('\n').filter((line) => line.startsWith('data:'));
  return events.map((line) => eventText(parse(line.slice(5)))).join('') || null;
}
