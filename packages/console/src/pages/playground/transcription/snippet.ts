import { type Language, queryText, type SnippetRequest, shellUrl } from '../../first-request/snippets.ts';

export interface TranscriptionRequest extends Pick<SnippetRequest, 'origin' | 'query'> {
  model: string;
  file: string;
  language: string;
  prompt: string;
}

/** A transcription as code: a form with a file, unlike the JSON of the other endpoints. */
export function transcriptionSnippet(language: Language, request: TranscriptionRequest): string {
  const url = `${request.origin}/v1/audio/transcriptions${queryText(request.query)}`;
  const fields: [string, string][] = [
    ['model', request.model],
    ...(request.language === '' ? [] : [['language', request.language] as [string, string]]),
    ...(request.prompt === '' ? [] : [['prompt', request.prompt] as [string, string]]),
    ['response_format', 'verbose_json'],
    ['timestamp_granularities[]', 'word'],
  ];
  if (language === 'curl') {
    return [
      `curl ${shellUrl(url)} \\`,
      `  -H "Authorization: Bearer $BAOBAB_API_KEY" \\`,
      ...fields.map(([name, value]) => `  -F ${JSON.stringify(`${name}=${value}`)} \\`),
      `  -F ${JSON.stringify(`file=@${request.file}`)}`,
    ].join('\n');
  }
  if (language === 'javascript') {
    return [
      `import { openAsBlob } from 'node:fs';`,
      '',
      'const form = new FormData();',
      ...fields.map(([name, value]) => `form.append(${JSON.stringify(name)}, ${JSON.stringify(value)});`),
      `form.append('file', await openAsBlob(${JSON.stringify(request.file)}), ${JSON.stringify(request.file)});`,
      `const response = await fetch('${url}', {`,
      `  method: 'POST',`,
      `  headers: { Authorization: \`Bearer \${process.env.BAOBAB_API_KEY}\` },`,
      '  body: form,',
      '});',
      'console.log(await response.json());',
    ].join('\n');
  }
  return [
    'import os',
    'import requests  # pip install requests',
    '',
    'response = requests.post(',
    `    "${url}",`,
    '    headers={"Authorization": "Bearer " + os.environ["BAOBAB_API_KEY"]},',
    '    data={',
    ...fields.map(([name, value]) => `        ${JSON.stringify(name)}: ${JSON.stringify(value)},`),
    '    },',
    `    files={"file": open(${JSON.stringify(request.file)}, "rb")},`,
    ')',
    'print(response.json())',
  ].join('\n');
}
