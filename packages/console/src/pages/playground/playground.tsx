import { useEffect, useState } from 'preact/hooks';
import { changeSearch, usePlace } from '../../address/router.ts';
import { useModels } from '../../api/queries.ts';
import type { Modality } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { Empty, Failure } from '../../components/feedback.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page, Skeleton } from '../../components/page.tsx';
import { texts } from '../../texts/en/texts.ts';
import { useBilledTo } from '../accounts/work-about.ts';
import { CodeExamples, type WriteCode } from '../first-request/code-examples.tsx';
import { Chat } from './chat/chat.tsx';
import { Transcription } from './transcription/transcription.tsx';
import { Embeddings } from './vectors/embeddings.tsx';
import { Rerank } from './vectors/rerank.tsx';

const MODES: readonly Modality[] = ['chat', 'embedding', 'rerank', 'audio'];
const PARTS = { chat: Chat, embedding: Embeddings, rerank: Rerank, audio: Transcription };

export default function Playground() {
  const { search } = usePlace();
  const models = useModels();
  const [code, setCode] = useState<WriteCode>();
  const all = models.data?.data ?? [];
  const asked = search.get('mode') ?? all.find(({ id }) => id === search.get('model'))?.modality;
  const mode = MODES.find((each) => each === asked) ?? 'chat';
  const place = `baobab.playground.model.${mode}`;
  const last = localStorage.getItem(place);
  // A choice stays when its model fails: the next message must not go to another one, which may have a price.
  const kept = [search.get('model'), search.get('with'), last];
  const usable = all.filter(
    ({ id, modality, status }) => modality === mode && (status !== 'unavailable' || kept.includes(id)),
  );
  const named = (id: string | null) => usable.find((each) => each.id === id);
  const chosen = named(search.get('model'));
  // The first of the list at the first visit. Later it is kept: which of them are loaded, and so first, changes all the time.
  const model = chosen ?? named(last) ?? usable[0];
  useEffect(() => {
    if (model) localStorage.setItem(place, model.id);
  }, [place, model]);
  const Part = PARTS[mode];
  return (
    <Page
      title={texts.playground.title}
      about={useBilledTo(texts.playground.about)}
      filters={
        <Segments
          label={texts.playground.mode}
          options={optionsOf(texts.playground.modes)}
          value={mode}
          onValue={(value) => changeSearch({ mode: value, model: undefined, with: undefined })}
        />
      }
    >
      {models.isError && !models.data && <Failure error={models.error} onRetry={() => void models.refetch()} />}
      {models.isPending && <Skeleton height={420} />}
      {models.data && !model && (
        <Empty icon="models" title={texts.playground.noModel}>
          <p>{texts.playground.noModelHint}</p>
        </Empty>
      )}
      {model && <Part key={mode} models={usable} model={model} onCode={(write) => setCode(() => write)} />}
      {code && <CodeSheet write={code} onClose={() => setCode(undefined)} />}
    </Page>
  );
}

function CodeSheet({ write, onClose }: { write: WriteCode; onClose: () => void }) {
  return (
    <Sheet
      title={texts.playground.codeTitle}
      about={texts.playground.codeHint}
      onClose={onClose}
      foot={<Button onClick={onClose}>{texts.common.close}</Button>}
    >
      <CodeExamples write={write} />
    </Sheet>
  );
}
