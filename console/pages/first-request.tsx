import { useModels } from '../api/queries.ts';
import { href } from '../app/router.ts';
import { LinkButton } from '../components/controls.tsx';
import { Empty } from '../components/feedback.tsx';
import { texts } from '../texts/en.ts';
import { CodeExamples } from './code-examples.tsx';
import { exampleRequest, snippet } from './snippets.ts';

export interface SnippetsProps {
  secret?: string;
  models?: string[];
}

/** A request in three languages, for the first model that the key may use. */
export function Snippets({ secret, models: allowed = [] }: SnippetsProps) {
  const models = useModels();
  const usable = (models.data?.data ?? []).filter(
    ({ id, modality }) => modality !== 'audio' && (allowed.length === 0 || allowed.includes(id)),
  );
  const model =
    usable.find(({ modality, status }) => modality === 'chat' && status === 'ready') ??
    usable.find(({ modality }) => modality === 'chat') ??
    usable[0];
  if (!model) return null;
  const request = exampleRequest(model.modality, model.id);
  return (
    <CodeExamples
      write={(language) =>
        snippet(language, { origin: location.origin, ...request, ...(secret === undefined ? {} : { secret }) })
      }
    />
  );
}

export function FirstRequest({ title, text }: { title: string; text: string }) {
  return (
    <Empty
      icon="requests"
      title={title}
      action={
        <div class="row">
          <LinkButton href={href('/playground')} icon="playground" tone="primary">
            {texts.playground.open}
          </LinkButton>
          <LinkButton href="/docs">{texts.common.docs}</LinkButton>
        </div>
      }
    >
      <p>{text}</p>
      <Snippets />
    </Empty>
  );
}
