import { call } from '../../api/client.ts';
import { TextArea } from '../../components/controls.tsx';
import { Card } from '../../components/page.tsx';
import { full } from '../../format/numbers.ts';
import { texts } from '../../texts/en.ts';
import { snippet } from '../snippets.ts';
import { costOf } from './cost.ts';
import { linesOf, useDraft } from './drafts.ts';
import { PartForm, type PartProps, Stats } from './parts.tsx';
import { useRun } from './run.ts';
import { similarities } from './similarity.ts';

interface EmbeddingAnswer {
  data: { embedding: number[] }[];
  usage: { prompt_tokens: number };
}

const PATH = '/v1/embeddings';

export function Embeddings({ models, model, onCode }: PartProps) {
  const { playground } = texts;
  const [draft, change] = useDraft('embedding', { text: playground.embedExample });
  const run = useRun<{ inputs: string[]; answer: EmbeddingAnswer }>();
  const inputs = linesOf(draft.text);
  const body = { model: model.id, input: inputs };
  const start = () =>
    run.start(async (signal) => ({
      inputs,
      answer: await call<EmbeddingAnswer>(PATH, { method: 'POST', body, signal }),
    }));
  const done = run.result?.value;
  return (
    <div class="play-two">
      <PartForm
        models={models}
        model={model}
        run={run}
        label={playground.run}
        disabled={inputs.length === 0}
        onRun={start}
        onCode={() => onCode((language) => snippet(language, { origin: location.origin, path: PATH, body }))}
      >
        <TextArea
          label={playground.texts}
          hint={playground.textsHint}
          rows={9}
          value={draft.text}
          onValue={(text) => change({ text })}
        />
      </PartForm>
      {done && run.result && (
        <Card title={playground.similarity}>
          <div class="stack">
            <Matrix inputs={done.inputs} vectors={done.answer.data.map(({ embedding }) => embedding)} />
            <Stats cost={costOf(model, done.answer.usage)} ms={run.result.ms}>
              <span>{`${full(done.answer.usage.prompt_tokens)} ${texts.models.tokens}`}</span>
              <span>{playground.dimensions(full(done.answer.data[0]?.embedding.length ?? 0))}</span>
            </Stats>
            <p class="small muted">{playground.similarityHint}</p>
          </div>
        </Card>
      )}
    </div>
  );
}

function Matrix({ inputs, vectors }: { inputs: string[]; vectors: number[][] }) {
  const values = similarities(vectors);
  return (
    <section class="matrix-wrap" aria-label={texts.playground.similarity} {...{ tabIndex: 0 }}>
      <table class="matrix">
        <thead>
          <tr>
            <td />
            {inputs.map((text, index) => (
              <th key={index} scope="col" title={text}>
                {index + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {inputs.map((text, row) => (
            <tr key={row}>
              <th scope="row" title={text}>
                <span class="matrix-text" dir="auto">
                  {row + 1}. {text}
                </span>
              </th>
              {(values[row] ?? []).map((value, column) => (
                <td key={column} title={`${text} / ${inputs[column]}`}>
                  <span class="matrix-shade" style={{ opacity: Math.max(0, value) ** 2 * 0.45 }} />
                  <span class="matrix-value">{value.toFixed(2)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
