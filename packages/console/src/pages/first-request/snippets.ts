export type Language = 'curl' | 'javascript' | 'python';

export const LANGUAGES: Record<Language, string> = { curl: 'curl', javascript: 'JavaScript', python: 'Python' };

const indent = (text: string, by: string) => text.replaceAll('\n', `\n${by}`);
const pretty = (value: unknown) => JSON.stringify(value, null, 2);
/** For a shell: single quotes, closed around each quote of the text. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Python writes constants differently from JSON. Strings are left alone. */
function python(value: unknown): string {
  return pretty(value).replace(/"(?:[^"\\]|\\.)*"|\b(true|false|null)\b/g, (match, constant?: string) =>
    constant === undefined ? match : ({ true: 'True', false: 'False', null: 'None' }[constant] ?? match),
  );
}

type Query = Readonly<Record<string, string>>;

/** For a URL. */
export const queryText = (query: Query = {}): string => {
  const text = new URLSearchParams(query).toString();
  return text === '' ? '' : `?${text}`;
};

/** Shells take a question mark for a pattern. */
export const shellUrl = (url: string): string => (url.includes('?') ? quoted(url) : url);

export interface SnippetRequest {
  origin: string;
  path: string;
  query?: Query;
  /** Without a secret, snippets read BAOBAB_API_KEY. */
  secret?: string;
  body: unknown;
}

/** A request that runs as pasted, without packages to install. */
export function snippet(language: Language, { origin, path, query, secret, body }: SnippetRequest): string {
  const url = `${origin}${path}${queryText(query)}`;
  if (language === 'curl') {
    return [
      `curl ${shellUrl(url)} \\`,
      `  -H "Authorization: Bearer ${secret ?? '$BAOBAB_API_KEY'}" \\`,
      `  -H "Content-Type: application/json" \\`,
      `  -d ${quoted(pretty(body))}`,
    ].join('\n');
  }
  if (language === 'javascript') {
    const key = secret === undefined ? '$' + '{process.env.BAOBAB_API_KEY}' : secret;
    return `const response = await fetch('${url}', {
  method: 'POST',
  headers: {
    Authorization: \`Bearer ${key}\`,
    'Content-Type': 'application/json',
  },
  body: JSON.stringify(${indent(pretty(body), '  ')}),
});
console.log(await response.${(body as { stream?: boolean }).stream ? 'text' : 'json'}());`;
  }
  const key = secret === undefined ? `os.environ["BAOBAB_API_KEY"]` : `"${secret}"`;
  return `import json${secret === undefined ? ', os' : ''}, urllib.request

request = urllib.request.Request(
    "${url}",
    headers={"Authorization": "Bearer " + ${key}, "Content-Type": "application/json"},
    data=json.dumps(${indent(python(body), '    ')}).encode(),
)
print(urllib.request.urlopen(request).read().decode())`;
}

/** A first request for a model of this modality. */
export function exampleRequest(modality: string, model: string): { path: string; body: object } {
  if (modality === 'chat')
    return { path: '/v1/chat/completions', body: { model, messages: [{ role: 'user', content: 'Hello' }] } };
  if (modality === 'rerank')
    return {
      path: '/v1/rerank',
      body: { model, query: 'capital of Kenya', documents: ['Nairobi is in Kenya.', 'Oslo is in Norway.'] },
    };
  return { path: '/v1/embeddings', body: { model, input: ['Hello'] } };
}
