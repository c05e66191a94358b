import { useState } from 'preact/hooks';
import { href } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { fileAddress, useBatch, useFileStart } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useWorkAccount } from '../../api/session.ts';
import type { Batch } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { Copyable } from '../../components/copying.tsx';
import { type Detail, Details } from '../../components/details.tsx';
import { Failure, toast, toastFailure } from '../../components/feedback.tsx';
import { Loaded } from '../../components/listing.tsx';
import { Modal, Sheet } from '../../components/overlay.tsx';
import { Skeleton } from '../../components/page.tsx';
import { full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { Amount } from '../spend/spend.tsx';
import { BatchProgress, BatchStatus, isRunning, took } from './batch-parts.tsx';
import { parseProblems } from './batch-problems.ts';

const MOST_PROBLEMS = 200;
const MOST_CHARACTERS = 500_000;

export interface BatchSheetProps {
  id: string;
  /** The row of the list, shown until the batch arrives. */
  known: Batch | undefined;
  onClose: () => void;
}

export function BatchSheet({ id, known, onClose }: BatchSheetProps) {
  const found = useBatch(id);
  const batch = found.data ?? known;
  if (batch) return <KnownBatch batch={batch} onClose={onClose} />;
  return (
    <Sheet title={texts.batches.columns.id} about={<Copyable text={id} />} onClose={onClose}>
      <Loaded query={found} skeleton={<Skeleton height={320} />}>
        {() => null}
      </Loaded>
    </Sheet>
  );
}

function KnownBatch({ batch, onClose }: { batch: Batch; onClose: () => void }) {
  const [asking, setAsking] = useState(false);
  const { batches } = texts;
  const length = took(batch);
  const time = (seconds: number) => exactTime(seconds * 1000);
  const { query } = useWorkAccount();
  const file = (id: string) => fileAddress(id, query);
  return (
    <Sheet
      title={batches.columns.id}
      about={<Copyable text={batch.id} />}
      onClose={onClose}
      foot={
        <>
          {isRunning(batch) && (
            <Button tone="danger" icon="stop" onClick={() => setAsking(true)}>
              {batches.cancel}
            </Button>
          )}
          {batch.error_file_id && (
            <LinkButton href={file(batch.error_file_id)} icon="download" download={`${batch.id}-errors.jsonl`}>
              {batches.errors}
            </LinkButton>
          )}
          {batch.output_file_id && (
            <LinkButton
              href={file(batch.output_file_id)}
              icon="download"
              tone="primary"
              download={`${batch.id}-results.jsonl`}
            >
              {batches.results}
            </LinkButton>
          )}
        </>
      }
    >
      <div class="stack">
        <BatchProgress batch={batch} withFailed />
        <Details
          rows={[
            [batches.columns.status, <BatchStatus key="status" batch={batch} />],
            [batches.columns.endpoint, <code key="endpoint">{batch.endpoint}</code>],
            [batches.input, <Copyable key="input" text={batch.input_file_id} />],
            [batches.columns.created, time(batch.created_at)],
            length === undefined ? [batches.expires, time(batch.expires_at)] : [batches.columns.took, length],
            ...spent(batch),
            ...Object.entries(batch.metadata ?? {}),
          ]}
        />
        <Problems batch={batch} />
      </div>
      {asking && <CancelBatch batch={batch} onClose={() => setAsking(false)} />}
    </Sheet>
  );
}

/** What was billed, by model where there are several. */
function spent({ models = [], cost_usd: cost }: Batch): Detail[] {
  const { batches, figures } = texts;
  if (cost === undefined) return [[batches.columns.cost, <span class="muted">{batches.costLater}</span>]];
  const sum = (field: 'prompt_tokens' | 'completion_tokens') => models.reduce((all, model) => all + model[field], 0);
  return [
    models.length > 0 && [
      models.length === 1 ? batches.model : batches.models,
      models.map(({ model, cost_usd }) => (
        <div key={model} class="spread row-wrap">
          <a href={href('/models', { model })}>{model}</a>
          {models.length > 1 && <Amount usd={cost_usd} />}
        </div>
      )),
    ],
    [figures.prompt, full(sum('prompt_tokens'))],
    [figures.completion, full(sum('completion_tokens'))],
    [batches.columns.cost, <Amount key="cost" usd={cost} />],
  ];
}

/** Problems of the input file, or of single lines from the error file. */
function Problems({ batch }: { batch: Batch }) {
  const { batches } = texts;
  const lines = useFileStart(batch.error_file_id, MOST_CHARACTERS);
  // The error file, where there is one, has every line.
  const input = (batch.errors?.data ?? [])
    .filter(({ line }) => line === null || !batch.error_file_id)
    .map(({ line, code, message }) => ({
      name: line === null ? batches.input : `${batches.line} ${line}`,
      code,
      message,
    }));
  const problems = [...input, ...(lines.data === undefined ? [] : parseProblems(lines.data, MOST_PROBLEMS))];
  if (lines.isError) return <Failure error={lines.error} />;
  if (problems.length === 0 && isRunning(batch)) return null;
  return (
    <section class="stack-tight">
      <h3>{batches.problems}</h3>
      {problems.length === 0 && lines.isFetching && <Skeleton height={160} />}
      {problems.length === 0 && !lines.isFetching && <p class="muted small">{batches.noProblems}</p>}
      {problems.map(({ name, code, message }, index) => (
        <div key={index} class="attempt">
          <div class="spread">
            <span class="mono strong">{name}</span>
            <code class="bad">{code}</code>
          </div>
          <div class="small">{message}</div>
        </div>
      ))}
      {problems.length >= MOST_PROBLEMS && <p class="muted small">{batches.firstProblems(MOST_PROBLEMS)}</p>}
    </section>
  );
}

function CancelBatch({ batch, onClose }: { batch: Batch; onClose: () => void }) {
  const { batches } = texts;
  const { completed, failed, total } = batch.request_counts;
  const { query } = useWorkAccount();
  const cancel = async () => {
    try {
      await call(`/v1/batches/${batch.id}/cancel`, { method: 'POST', query });
      await queryClient.invalidateQueries({ queryKey: ['batch', batch.id] });
      await queryClient.invalidateQueries({ queryKey: ['batches'] });
      toast(batches.cancelled(batch.id));
    } catch (error) {
      toastFailure(error);
    }
    onClose();
  };
  return (
    <Modal
      title={batches.cancelTitle}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{batches.keep}</Button>
          <Button tone="danger-filled" onClick={() => void cancel()}>
            {batches.cancel}
          </Button>
        </>
      }
    >
      <p>{batches.cancelText(full(completed + failed), full(total))}</p>
    </Modal>
  );
}
