import { href } from '../../address/router.ts';
import { useModels } from '../../api/queries.ts';
import { useWorkAccount } from '../../api/session.ts';
import { LinkButton } from '../../components/button.tsx';
import { Empty } from '../../components/feedback.tsx';
import { texts } from '../../texts/en/texts.ts';
import { CodeExamples } from './code-examples.tsx';
import { exampleModel, type KeyUse } from './example-model.ts';
import { exampleRequest, snippet } from './snippets.ts';

export interface SnippetsProps {
  /** Left out with the snippets where the key can use no model. */
  title?: string;
  secret?: string;
  use?: KeyUse;
}

/** A request in three languages, for a model that the key may use. */
export function Snippets({ title, secret, use = {} }: SnippetsProps) {
  const models = useModels();
  const { query } = useWorkAccount();
  const model = exampleModel(models.data?.data ?? [], use);
  if (!model) return null;
  const request = exampleRequest(model.modality, model.id);
  return (
    <>
      {title !== undefined && <h3>{title}</h3>}
      <CodeExamples
        write={(language) =>
          snippet(language, {
            origin: location.origin,
            ...request,
            // A secret is of the account that it belongs to.
            ...(secret === undefined ? { query } : { secret }),
          })
        }
      />
    </>
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
