/**
 * Puts real engines behind Baobab and prints what works: `npm run test:engines [-- engine…] [--record] [--model name]`. Engines that
 * this machine cannot have are left out with the reason. `--record` replaces the fixtures that `npm test` replays. `--model` tries only the
 * models that the engine calls so.
 */
import { parseArgs } from 'node:util';
import { freePort } from '../fixtures/free-port.ts';
import { chatFeatures } from './features/chat.ts';
import { type Feature, type FeatureContext, NotSupported } from './features/feature.ts';
import { imageFeatures } from './features/images.ts';
import { serverFeatures } from './features/server.ts';
import { toolFeatures } from './features/tools.ts';
import { vectorFeatures } from './features/vectors.ts';
import { removeRecordings, writeRecording } from './fixtures.ts';
import type { EngineUnderTest, ServedModel } from './launch/engine.ts';
import { engines } from './launch/engines.ts';
import type { RunningProcess } from './launch/process.ts';
import { startRecorder } from './recorder.ts';
import { startTestService } from './service.ts';

/** Feature → what was found. */
type Results = Map<string, string>;

/** Markdown for docs/engines.md. */
function printTable(features: readonly Feature[], columns: Map<string, Results>, absent: readonly string[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  const names = [...columns.keys()];
  const lines = features.map(({ name }) =>
    row([name, ...names.map((engine) => columns.get(engine)?.get(name) ?? '–')]),
  );
  const table = [row(['', ...names]), row(['---', ...names.map(() => '---')]), ...lines].join('');
  return absent.length === 0 ? table : `${table}\nLeft out:\n${absent.map((each) => `- ${each}\n`).join('')}`;
}

const allFeatures: readonly Feature[] = [
  ...chatFeatures,
  ...toolFeatures,
  ...vectorFeatures,
  ...imageFeatures,
  ...serverFeatures,
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { record: { type: 'boolean' }, model: { type: 'string' } },
});
const say = (text: string): void => void process.stderr.write(`${text}\n`);

async function checkModel(engine: EngineUnderTest, version: string, model: ServedModel, results: Results) {
  const port = await freePort();
  const engineAddress = `http://127.0.0.1:${port}`;
  let running: RunningProcess = model.start(port);
  try {
    await running.ready(`${engineAddress}${engine.healthPath}`);
    await using recorder = await startRecorder(port);
    await using service = await startTestService({ ...model, kind: engine.kind, url: recorder.url });
    const context = (requests: Parameters<typeof writeRecording>[0]['requests']): FeatureContext => ({
      service,
      model,
      kind: engine.kind,
      engineAddress,
      async ask(path, body) {
        const answer = await service.post(path, body);
        requests.push({ path, body, status: answer.status, answer: answer.text });
        return answer;
      },
      async restart(whileDown) {
        await running.kill();
        await whileDown();
        running = model.start(port);
        await running.ready(`${engineAddress}${engine.healthPath}`);
        return running;
      },
    });
    for (const feature of allFeatures.filter(
      ({ task, needsTools, aboutImages, aboutUnfit }) =>
        task === model.task &&
        (model.tools !== 'only' || needsTools) &&
        (!model.vision || aboutImages) &&
        Boolean(model.unfit) === Boolean(aboutUnfit),
    )) {
      await recorder.take();
      const requests: Parameters<typeof writeRecording>[0]['requests'] = [];
      const result = await checkFeature(feature, context(requests));
      say(`  ${feature.name}: ${result}`);
      results.set(feature.name, result);
      if (!values.record || requests.length === 0) continue;
      const { task, name, contextLength, dimensions, vision } = model;
      writeRecording({
        engine: engine.name,
        version,
        feature: feature.name,
        model: { task, kind: engine.kind, name, contextLength, dimensions, vision },
        requests,
        exchanges: await recorder.take(),
      });
    }
  } finally {
    await running.kill();
  }
}

async function checkFeature(feature: Feature, context: FeatureContext): Promise<string> {
  try {
    return (await feature.check(context)) ?? 'yes';
  } catch (error) {
    const { message } = error as Error;
    return error instanceof NotSupported ? `no: ${message}` : `WRONG: ${message.replaceAll(/\s+/g, ' ').slice(0, 400)}`;
  }
}

const columns = new Map<string, Results>();
const absent: string[] = [];
for (const engine of engines.filter(({ name }) => positionals.length === 0 || positionals.includes(name))) {
  say(engine.name);
  try {
    const { version, models } = await engine.prepare();
    const results: Results = new Map();
    columns.set(`${engine.name} ${version}`, results);
    const { record, model: only } = values;
    if (record && only === undefined) removeRecordings(engine.name);
    for (const model of models.filter(({ name }) => only === undefined || name === only)) {
      await checkModel(engine, version, model, results);
    }
  } catch (error) {
    const reason = (error as Error).message.trim();
    say(`  left out: ${reason}`);
    absent.push(`${engine.name}: ${reason.split('\n')[0]}`);
  }
}
process.stdout.write(printTable(allFeatures, columns, absent));
process.exitCode = [...columns.values()].some((results) =>
  [...results.values()].some((each) => each.startsWith('WRONG')),
)
  ? 1
  : 0;
