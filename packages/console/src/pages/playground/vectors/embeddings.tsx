import { TextArea } from '../../../components/fields.tsx';
import { Card } from '../../../components/page.tsx';
import { full } from '../../../format/numbers.ts';
import { texts } from '../../../texts/en/texts.ts';
import { costOf } from '../chat/cost.ts';
import { linesOf, useDraft } from '../drafts.ts';
import { type PartProps, Stats } from '../parts.tsx';
import { type Exchange, RequestForm } from '../request-form.tsx';
import { useRun } from '../run.ts';

interface EmbeddingAnswer {
  data: { embedding: number[] }[];
  usage: { prompt_tokens: number };
}

function dot(left: number[], right: number[]): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
}

/** Cosine similarity of every vector with every other. */
function similarities(vectors: number[][]): number[][] {
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((left, row) =>
    vectors.map((right, column) => dot(left, right) / ((lengths[row] ?? 1) * (lengths[column] ?? 1))),
  );
}

export function Embeddings(part: PartProps) {
  const { playground } = texts;
  const [draft, change] = useDraft('embedding', { text: playground.embedExample });
  const body = { model: part.model.id, input: linesOf(draft.text) };
  const run = useRun<Exchange<typeof body, EmbeddingAnswer>>();
  const { sent, answer } = run.result?.value ?? {};
  return (
    <div class="play-two">
      <RequestForm {...part} path="/v1/embeddings" body={body} run={run} disabled={body.input.length === 0}>
        <TextArea
          label={playground.texts}
          hint={playground.textsHint}
          rows={9}
          value={draft.text}
          onValue={(text) => change({ text })}
        />
      </RequestForm>
      {sent && answer && run.result && (
        <Card title={playground.similarity}>
          <div class="stack">
            <Matrix inputs={sent.input} vectors={answer.data.map(({ embedding }) => embedding)} />
            <Stats cost={costOf(part.model, answer.usage)} ms={run.result.ms}>
              <span>{`${full(answer.usage.prompt_tokens)} ${texts.models.tokens}`}</span>
              <span>{playground.dimensions(full(answer.data[0]?.embedding.length ?? 0))}</span>
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
