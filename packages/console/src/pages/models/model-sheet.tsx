import { isOperator } from '@baobab/core/domain/operations.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { useState } from 'preact/hooks';
import { href } from '../../address/router.ts';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import { useSession } from '../../api/session.ts';
import type { Engine, Model } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { Select } from '../../components/choices.tsx';
import { Copyable } from '../../components/copying.tsx';
import { type Detail, Details } from '../../components/details.tsx';
import { Badge, toast } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { useErrorOf } from '../../components/form.tsx';
import { Modal, Sheet } from '../../components/overlay.tsx';
import { full } from '../../format/numbers.ts';
import { date } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';
import { EngineActions } from '../engines/engine-actions.tsx';
import { EngineFacts } from '../engines/engine-facts.tsx';
import { ModelStatus, price, statusOf, statusText } from './model-parts.tsx';

export interface ModelSheetProps {
  model: Model;
  engine: Engine | undefined;
  onClose: () => void;
}

export function ModelSheet({ model, engine, onClose }: ModelSheetProps) {
  const admin = isOperator(useSession());
  const [deprecating, setDeprecating] = useState(false);
  const { models } = texts;
  const capabilities = Object.entries(model.capabilities)
    .filter(([, able]) => able)
    .map(([name]) => labelOf(models.capabilities, name));
  const facts: Detail[] = [
    [models.columns.modality, texts.modalities[model.modality]],
    [models.columns.context, `${full(model.context_length)} ${models.tokens}`],
    model.max_output_tokens !== null && [models.maxOutput, `${full(model.max_output_tokens)} ${models.tokens}`],
    model.dimensions !== null && [models.dimensions, full(model.dimensions)],
    [models.regions, model.regions.join(', ') || '–'],
    [models.able, capabilities.join(', ') || texts.common.none],
    [models.languages, model.languages.join(', ') || '–'],
    [models.license, model.license],
    model.aliases.length > 0 && [models.aliases, model.aliases.join(', ')],
  ];
  const prices: [string, string][] = [
    [models.columns.input, price('prompt_per_million')(model)],
    [models.columns.output, price('completion_per_million')(model)],
    [models.cached, price('cache_read_per_million')(model)],
    [models.columns.minute, price('audio_per_minute')(model)],
  ];
  return (
    <Sheet
      title={model.id}
      about={<Copyable text={`${model.id}@${model.version}`} />}
      onClose={onClose}
      foot={
        <>
          {admin && (
            <Button tone="quiet" onClick={() => setDeprecating(true)}>
              {models.deprecate}
            </Button>
          )}
          <LinkButton href={href('/usage', { model: model.id, group: 'key' })} icon="usage">
            {texts.nav.usage}
          </LinkButton>
          {statusOf({ model, engine }) !== 'unavailable' && (
            <LinkButton
              href={href('/playground', { model: model.id, mode: model.modality })}
              icon="playground"
              tone="primary"
            >
              {models.tryIt}
            </LinkButton>
          )}
        </>
      }
    >
      <div class="stack">
        <p>{model.description}</p>
        <div class="row">
          <ModelStatus model={model} engine={engine} />
          <span class="small muted">{statusText({ model, engine })}</span>
        </div>
        {model.deprecated_at !== null && (
          <p class="notice notice-warn">{models.deprecatedNotice(date(model.deprecated_at, 'UTC'))}</p>
        )}
        {engine && (
          <section class="stack-tight">
            <h3>{models.engine}</h3>
            <EngineFacts engine={engine} />
            <EngineActions engine={engine} />
          </section>
        )}
        <section class="stack-tight">
          <h3>{models.facts}</h3>
          <Details rows={facts} />
        </section>
        <section class="stack-tight">
          <h3>{models.prices}</h3>
          <Details rows={prices.filter(([, value]) => value !== '–')} />
        </section>
        <section class="stack-tight">
          <h3>{models.versions}</h3>
          <p class="small muted">{models.versionsHint}</p>
          <ul class="stack-tight">
            {model.versions.map(({ version, deprecated_at, retired_at }) => (
              <li key={version} class="spread">
                <Copyable text={`${model.id}@${version}`} />
                {retired_at !== null ? (
                  <Badge tone="bad">{models.retired(date(retired_at, 'UTC'))}</Badge>
                ) : deprecated_at !== null ? (
                  <Badge tone="warn">{models.retires(date(deprecated_at, 'UTC'))}</Badge>
                ) : (
                  version === model.version && <Badge tone="good">{models.recommended}</Badge>
                )}
              </li>
            ))}
          </ul>
        </section>
      </div>
      {deprecating && <Deprecate model={model} onClose={() => setDeprecating(false)} />}
    </Sheet>
  );
}

const NOTICE_DAYS = 90;

/** The server accepts dates at least 90 days ahead; the day after is safe in every time zone. */
const earliest = () => new Date(Date.now() + (NOTICE_DAYS + 1) * DAY_MS).toISOString().slice(0, 10);

function Deprecate({ model, onClose }: { model: Model; onClose: () => void }) {
  const [target, setTarget] = useState(model.id);
  const [on, setOn] = useState(earliest);
  const body = { model: target, on };
  const [error, setError] = useErrorOf<string>(body, () => 'on');
  const { models } = texts;
  const submit = async () => {
    try {
      await call('/v1/admin/models/deprecate', { method: 'POST', body });
      await queryClient.invalidateQueries({ queryKey: ['models'] });
      toast(models.deprecated(target, on));
      onClose();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <Modal
      title={models.deprecateTitle(model.id)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="danger-filled" onClick={() => void submit()}>
            {models.deprecate}
          </Button>
        </>
      }
    >
      <p>{models.deprecateText}</p>
      <Select
        label={models.deprecateWhat}
        value={target}
        onValue={setTarget}
        options={[
          { value: model.id, label: models.allVersions },
          ...model.versions.map(({ version }) => ({ value: `${model.id}@${version}`, label: version })),
        ]}
      />
      <TextField
        label={models.deprecateOn}
        hint={models.deprecateHint}
        type="date"
        min={earliest()}
        value={on}
        onValue={setOn}
        error={error}
      />
    </Modal>
  );
}
