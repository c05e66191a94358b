export { createAudioReader } from './audio/reader.ts';
export { createPdfReader } from './documents/pdf-reader.ts';
