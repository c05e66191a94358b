import { BATCH_OPERATIONS } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { changeSearch, href, usePlace } from '../../address/router.ts';
import { call } from '../../api/client.ts';
import { useFiles } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import type { Batch } from '../../api/types.ts';
import { LinkButton } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { toast } from '../../components/feedback.tsx';
import { Form, useForm } from '../../components/form.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { bytes } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { isBatchInput } from '../files/file-kind.ts';

const ENDPOINTS = Object.keys(BATCH_OPERATIONS);

export function CreateBatch({ onClose }: { onClose: () => void }) {
  const { search } = usePlace();
  const files = useFiles('batch');
  const [chosen, setChosen] = useState(search.get('file') ?? '');
  const [endpoint, setEndpoint] = useState(ENDPOINTS[0] ?? '');
  const [window, setWindow] = useState('24h');
  const { batches } = texts;
  const inputs = (files.data?.data ?? []).filter(isBatchInput);
  const input = chosen || inputs[0]?.id || '';

  const form = useForm(async () => {
    const body = { input_file_id: input, endpoint, completion_window: window };
    const batch = await call<Batch>('/v1/batches', { method: 'POST', body });
    await queryClient.invalidateQueries({ queryKey: ['batches'] });
    toast(batches.created(batch.id));
    changeSearch({ new: undefined, file: undefined, batch: batch.id });
  });
  return (
    <Sheet title={batches.sheetTitle} onClose={onClose}>
      <Form state={form} action={batches.create} ready={input !== ''} onCancel={onClose}>
        {files.data && inputs.length === 0 ? (
          <div class="notice row spread">
            {batches.noInput}
            <LinkButton href={href('/files')} icon="upload" size="small">
              {texts.files.upload}
            </LinkButton>
          </div>
        ) : (
          <Select
            label={batches.input}
            options={inputs.map((file) => ({ value: file.id, label: `${file.filename} (${bytes(file.bytes)})` }))}
            value={input}
            onValue={setChosen}
          />
        )}
        <Select
          label={batches.endpoint}
          options={ENDPOINTS.map((value) => ({ value, label: value }))}
          value={endpoint}
          onValue={setEndpoint}
        />
        <Select label={batches.window} options={optionsOf(batches.windows)} value={window} onValue={setWindow} />
      </Form>
    </Sheet>
  );
}
