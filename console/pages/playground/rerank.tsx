import { call } from '../../api/client.ts';
import { TextArea, TextField } from '../../components/controls.tsx';
import { Card } from '../../components/page.tsx';
import { full } from '../../format/numbers.ts';
import { texts } from '../../texts/en.ts';
import { snippet } from '../snippets.ts';
import { costOf } from './cost.ts';
import { linesOf, useDraft } from './drafts.ts';
import { PartForm, type PartProps, Stats } from './parts.tsx';
import { useRun } from './run.ts';

interface RerankAnswer {
  results: { index: number; relevance_score: number }[];
  usage: { prompt_tokens: number };
}

const PATH = '/v1/rerank';

export function Rerank({ models, model, onCode }: PartProps) {
  const { playground } = texts;
  const [draft, change] = useDraft('rerank', { query: playground.queryExample, documents: playground.embedExample });
  const run = useRun<{ documents: string[]; answer: RerankAnswer }>();
  const documents = linesOf(draft.documents);
  const body = { model: model.id, query: draft.query.trim(), documents };
  const start = () =>
    run.start(async (signal) => ({
      documents,
      answer: await call<RerankAnswer>(PATH, { method: 'POST', body, signal }),
    }));
  const done = run.result?.value;
  return (
    <div class="play-two">
      <PartForm
        models={models}
        model={model}
        run={run}
        label={playground.run}
        disabled={documents.length === 0 || body.query === ''}
        onRun={start}
        onCode={() => onCode((language) => snippet(language, { origin: location.origin, path: PATH, body }))}
      >
        <TextField label={playground.query} value={draft.query} onValue={(query) => change({ query })} />
        <TextArea
          label={playground.documents}
          hint={playground.documentsHint}
          rows={8}
          value={draft.documents}
          onValue={(text) => change({ documents: text })}
        />
      </PartForm>
      {done && run.result && (
        <Card title={playground.ranked}>
          <div class="stack">
            <ol class="ranking">
              {done.answer.results.map(({ index, relevance_score: score }, rank) => (
                <li key={index} class="ranking-row ranking-tall">
                  <span class="ranking-bar" style={{ width: `${score * 100}%` }} />
                  <span class="ranking-text" dir="auto">
                    {done.documents[index]}
                  </span>
                  <span class="mono" title={playground.place(rank + 1, index + 1)}>
                    {score.toFixed(3)}
                  </span>
                </li>
              ))}
            </ol>
            <Stats cost={costOf(model, done.answer.usage)} ms={run.result.ms}>
              <span>{`${full(done.answer.usage.prompt_tokens)} ${texts.models.tokens}`}</span>
            </Stats>
          </div>
        </Card>
      )}
    </div>
  );
}
