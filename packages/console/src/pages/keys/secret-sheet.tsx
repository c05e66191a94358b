import type { NewKey } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { CodeBlock } from '../../components/copying.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { texts } from '../../texts/en/texts.ts';
import { Snippets } from '../first-request/first-request.tsx';

/** The secret of a new key, shown this once and kept nowhere. */
export function SecretSheet({ created, onClose }: { created: NewKey; onClose: () => void }) {
  const secret = created.secret ?? '';
  return (
    <Sheet
      title={texts.keys.created(created.name)}
      onClose={onClose}
      foot={
        <Button tone="primary" onClick={onClose}>
          {texts.keys.done}
        </Button>
      }
    >
      <div class="stack">
        <p class="notice notice-warn">{texts.keys.once}</p>
        <div class="secret">
          <CodeBlock code={secret} head={<span class="small muted code-title">{texts.keys.secret}</span>} />
        </div>
        <Snippets
          title={texts.keys.snippets}
          secret={secret}
          use={{ scopes: created.scopes, models: created.allowed_models }}
        />
      </div>
    </Sheet>
  );
}
