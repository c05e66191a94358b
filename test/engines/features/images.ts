import { MODEL } from '../service.ts';
import { chatBody, type Feature, jsonOf, must, NotSupported, refused } from './feature.ts';

const CHAT = '/v1/chat/completions';
const EMBEDDINGS = '/v1/embeddings';
/** A red pixel. */
const RED = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const url = (base64: string): string => `data:image/png;base64,${base64}`;
const question = { type: 'text', text: 'What colour is this?' };
const asking = (...images: object[]): object =>
  chatBody({ messages: [{ role: 'user', content: [question, ...images] }] });
const image = (source: string): object => ({ type: 'image_url', image_url: { url: source } });

export const imageFeatures: readonly Feature[] = [
  {
    name: 'images',
    task: 'chat',
    aboutImages: true,
    async check({ ask, model }) {
      const answer = await ask(CHAT, asking(image(url(RED))));
      if (model.vision !== true) {
        refused(answer, 422, 'unsupported_parameter', 'messages[0].content[1]');
        throw new NotSupported('422, the model takes no images');
      }
      const withImage = jsonOf(answer).usage.prompt_tokens;
      const without = jsonOf(await ask(CHAT, asking())).usage.prompt_tokens;
      must(withImage > without + 1, `${withImage} tokens with an image, ${without} without`);
      return `yes, ${withImage - without} tokens`;
    },
  },
  {
    name: 'images, uploaded',
    task: 'chat',
    aboutImages: true,
    async check({ service, model }) {
      if (model.vision !== true) throw new NotSupported('422, the model takes no images');
      const bytes = Buffer.from(RED, 'base64');
      const id = await service.upload(new File([bytes], 'red.png', { type: 'image/png' }), 'vision');
      const uploaded = jsonOf(await service.post(CHAT, asking({ type: 'file', file: { file_id: id } })));
      const inline = jsonOf(await service.post(CHAT, asking(image(url(RED)))));
      must(
        uploaded.usage.prompt_tokens === inline.usage.prompt_tokens,
        'an uploaded image has other tokens than a data URL',
      );
      return undefined;
    },
  },
  {
    name: 'embeddings, images',
    task: 'embedding',
    aboutImages: true,
    async check({ ask, model }) {
      const answer = await ask(EMBEDDINGS, { model: MODEL, input: [{ image: url(RED) }, { text: 'red' }] });
      if (model.vision !== true) {
        refused(answer, 422, 'unsupported_parameter', 'input[0].image');
        throw new NotSupported('422, the model takes no images');
      }
      const { data, usage } = jsonOf(answer);
      const vectors = data.map(({ embedding }) => embedding);
      must(
        vectors.every((vector) => Array.isArray(vector) && vector.length === model.dimensions),
        'not two vectors',
      );
      must(JSON.stringify(vectors[0]) !== JSON.stringify(vectors[1]), 'image and text have the same vector');
      must(usage.prompt_tokens > 0, 'no usage');
      return undefined;
    },
  },
];
