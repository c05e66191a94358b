import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.ts';
import type { Client } from './client.ts';
import { python } from './install.ts';
import { nameOf, prepare } from './recipe.ts';
import { startService, streamedText } from './service.ts';

const UPLOAD_BYTES = 1_000_000;
const PROCESSING_TIMEOUT_MS = 1_200_000;

/** What it needs to run models itself: several GB. */
const WITHOUT = [
  'accelerate',
  'faster-whisper',
  'opencv-python-headless',
  'rapidocr',
  'sentence-transformers',
  'torch',
  'transformers',
];

interface Language {
  /** `#` becomes a number. */
  sentences: readonly string[];
  /** One sentence in the middle, and what asks for it. */
  fact: string;
  question: string;
}

const LANGUAGES: readonly Language[] = [
  {
    sentences: [
      'The river rises in the highlands near mountain # and feeds many small farms.',
      'Farmers of village # bring maize, beans and coffee to the market on Saturdays.',
      'School number # has four teachers and a library with old books.',
      'The road to town # is closed when the rain is heavy in April.',
    ],
    fact: 'The lighthouse of Mirabel was painted green in 1931.',
    question: 'What colour was the lighthouse of Mirabel painted?',
  },
  {
    sentences: [
      'በመንደር # የሚኖሩ ገበሬዎች ቅዳሜ ቀን በቆሎ፣ ባቄላና ቡና ወደ ገበያ ያመጣሉ።',
      'ወንዙ ከቁጥር # ተራራ አጠገብ ከደጋው ይነሳል፤ ብዙ ትናንሽ እርሻዎችንም ያጠጣል።',
      'ትምህርት ቤት ቁጥር # አራት መምህራንና የቆዩ መጻሕፍት ያሉበት ቤተ መጻሕፍት አለው።',
      'ወደ ከተማ # የሚወስደው መንገድ በሚያዝያ ወር ዝናብ ሲበዛ ይዘጋል።',
    ],
    fact: 'የሚራቤል የባሕር መብራት ቤት በ1931 አረንጓዴ ተቀባ።',
    question: 'የሚራቤል የባሕር መብራት ቤት ምን ቀለም ተቀባ?',
  },
  {
    sentences: [
      '#号村的农民每星期六把玉米、豆子和咖啡带到市场上去卖。',
      '这条河发源于#号山附近的高地，灌溉着许多小农场。',
      '第#学校有四位老师和一间藏有旧书的图书馆。',
      '四月雨大的时候，通往#号镇的道路会关闭。',
    ],
    fact: '米拉贝尔灯塔在1931年被漆成了绿色。',
    question: '米拉贝尔灯塔被漆成了什么颜色？',
  },
];

function longText({ sentences, fact }: Language, bytes: number): string {
  const said: string[] = [];
  for (let number = 1, size = 0; size < bytes; number += 1) {
    const sentence = `${sentences[number % sentences.length]?.replace('#', `${number}`)} `;
    size += Buffer.byteLength(sentence);
    said.push(sentence);
  }
  said.splice(said.length / 2, 0, `${fact} `);
  return said.join('');
}

export const openWebUi: Client = {
  name: nameOf('open-webui'),
  install: python('open-webui', 'open-webui', WITHOUT),
  asserts: 'a streamed chat, and answers found in an upload of 1 MB in English, Amharic and Chinese',
  async run(context) {
    const { directory, model } = context;
    const port = await freePort();
    const home = join(directory, 'home');
    await mkdir(home);
    const start = (command: string) => `exec ${command} --host 127.0.0.1 --port ${port}`;
    const { script, env } = await prepare('open-webui', context, { home, directory }, start);
    await using service = await startService(['sh', '-e', '-c', script], {
      address: `http://127.0.0.1:${port}`,
      health: '/health',
      cwd: directory,
      // Models of a hub would be fetched otherwise.
      env: { ...env, DATA_DIR: home, WEBUI_SECRET_KEY: 'secret', HF_HUB_OFFLINE: '1', OFFLINE_MODE: 'true' },
    });
    const user = { name: 'Amina', email: 'amina@example.org', password: 'a-password-of-the-test' };
    const { token } = (await (await service.post('/api/v1/auths/signup', user)).json()) as { token: string };
    service.headers.authorization = `Bearer ${token}`;

    const { data } = (await (await service.request('/api/models')).json()) as { data: { id: string }[] };
    assert.ok(data.some(({ id }) => id === model));
    const messages = [{ role: 'user', content: 'Hello' }];
    const chat = await service.post('/api/chat/completions', { model, messages, stream: true });
    assert.equal(streamedText(await chat.text()), 'OK, hello.');

    const upload = new FormData();
    const text = LANGUAGES.map((language) => longText(language, UPLOAD_BYTES / LANGUAGES.length)).join('\n\n');
    upload.append('file', new Blob([text], { type: 'text/plain' }), 'notes.txt');
    const { id } = (await (await service.request('/api/v1/files/', { method: 'POST', body: upload })).json()) as {
      id: string;
    };
    const deadline = Date.now() + PROCESSING_TIMEOUT_MS;
    const status = async () =>
      ((await (await service.request(`/api/v1/files/${id}/process/status`)).json()) as { status: string }).status;
    let state = await status();
    while (state !== 'completed') {
      assert.notEqual(state, 'failed', 'the upload was not processed');
      assert.ok(Date.now() < deadline, 'the upload is still being processed');
      await new Promise((resolve) => setTimeout(resolve, 1000));
      state = await status();
    }
    for (const { question, fact } of LANGUAGES) {
      const query = { collection_names: [`file-${id}`], query: question, k: 3 };
      const found = (await (await service.post('/api/v1/retrieval/query/collection', query)).json()) as {
        documents: string[][];
      };
      assert.ok(
        found.documents.flat().some((document) => document.includes(fact)),
        `${question} ${JSON.stringify(found.documents)}`,
      );
    }
  },
};
