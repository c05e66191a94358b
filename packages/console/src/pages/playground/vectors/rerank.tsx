import { TextArea, TextField } from '../../../components/fields.tsx';
import { Card } from '../../../components/page.tsx';
import { full } from '../../../format/numbers.ts';
import { texts } from '../../../texts/en/texts.ts';
import { costOf } from '../chat/cost.ts';
import { linesOf, useDraft } from '../drafts.ts';
import { type PartProps, Stats } from '../parts.tsx';
import { type Exchange, RequestForm } from '../request-form.tsx';
import { useRun } from '../run.ts';

interface RerankAnswer {
  results: { index: number; relevance_score: number }[];
  usage: { prompt_tokens: number };
}

export function Rerank(part: PartProps) {
  const { playground } = texts;
  const [draft, change] = useDraft('rerank', { query: playground.queryExample, documents: playground.embedExample });
  const body = { model: part.model.id, query: draft.query.trim(), documents: linesOf(draft.documents) };
  const run = useRun<Exchange<typeof body, RerankAnswer>>();
  const { sent, answer } = run.result?.value ?? {};
  const incomplete = body.documents.length === 0 || body.query === '';
  return (
    <div class="play-two">
      <RequestForm {...part} path="/v1/rerank" body={body} run={run} disabled={incomplete}>
        <TextField label={playground.query} value={draft.query} onValue={(query) => change({ query })} />
        <TextArea
          label={playground.documents}
          hint={playground.documentsHint}
          rows={8}
          value={draft.documents}
          onValue={(text) => change({ documents: text })}
        />
      </RequestForm>
      {sent && answer && run.result && (
        <Card title={playground.ranked}>
          <div class="stack">
            <ol class="ranking">
              {answer.results.map(({ index, relevance_score: score }, rank) => (
                <li key={index} class="ranking-row ranking-tall">
                  <span class="ranking-bar" style={{ width: `${score * 100}%` }} />
                  <span class="ranking-text" dir="auto">
                    {sent.documents[index]}
                  </span>
                  <span class="mono" title={playground.place(rank + 1, index + 1)}>
                    {score.toFixed(3)}
                  </span>
                </li>
              ))}
            </ol>
            <Stats cost={costOf(part.model, answer.usage)} ms={run.result.ms}>
              <span>{`${full(answer.usage.prompt_tokens)} ${texts.models.tokens}`}</span>
            </Stats>
          </div>
        </Card>
      )}
    </div>
  );
}
