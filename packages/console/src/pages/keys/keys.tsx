import { may } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { useAccount, useKey, useKeyPages, useOwnKey } from '../../api/queries.ts';
import { ALL_ACCOUNTS, useAccountFilter, useSession } from '../../api/session.ts';
import type { Key, NewKey } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { CodeBlock, Copyable } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { Empty } from '../../components/feedback.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { useSettled } from '../../components/settled.ts';
import { texts } from '../../texts/en/texts.ts';
import { Snippets } from '../first-request/first-request.tsx';
import { Budget } from '../overview/budget.tsx';
import { useMonthlySpend } from '../spend/monthly-spend.ts';
import { CreateKey } from './create-key.tsx';
import { keyColumns } from './key-columns.tsx';
import { KeyDetail } from './key-detail.tsx';
import { KeyRights, keyState } from './key-parts.tsx';

/** `other`: the name of the chosen account, if it is not that of the session. */
function aboutOf(account: string | undefined, other: string | undefined): string {
  if (account === ALL_ACCOUNTS) return texts.keys.aboutAll;
  return other === undefined ? texts.keys.about : texts.keys.aboutOther(other);
}

export default function Keys() {
  const session = useSession();
  const { search } = usePlace();
  const [find, setFind] = useParameter('find');
  const keys = useKeyPages(useSettled(find));
  const account = useAccountFilter();
  const other = useAccount(account === session.account.id ? undefined : account);
  const spend = useMonthlySpend('key');
  // A key that has just ended must not count as active for the rest of the minute.
  const now = useNow();
  const [show, setShow] = useParameter('show', 'active');
  const [created, setCreated] = useState<NewKey>();
  const opened = search.get('key') ?? undefined;
  const open = useKey(
    opened,
    keys.rows.find(({ id }) => id === opened),
  );

  if (!may(session, 'keys.list')) return <OwnKeyPage />;

  const rows = keys.rows.filter((key) => show === 'all' || keyState(key, now) === 'active');
  const replacements = new Set(
    keys.rows.filter(({ id, original_id }) => id !== original_id).map((key) => key.original_id),
  );
  const isShared = ({ original_id }: Key) => replacements.has(original_id);
  const columns = keyColumns({
    spend,
    now,
    isShared,
    withAccount: account === ALL_ACCOUNTS,
    withStatus: show === 'all',
  });

  const create = (
    <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'key' })}>
      {texts.keys.create}
    </Button>
  );

  return (
    <Page
      title={texts.keys.title}
      about={aboutOf(account, other?.name)}
      action={create}
      filters={
        <>
          <Segments
            label={texts.keys.columns.status}
            options={optionsOf(texts.keys.show)}
            value={show}
            onValue={setShow}
          />
          <SearchField label={texts.common.search} value={find} onValue={setFind} />
        </>
      }
    >
      <Listing
        query={keys}
        rows={rows}
        label={texts.keys.title}
        columns={columns}
        rowKey={({ id }) => id}
        selected={open?.id}
        onOpen={({ id }) => changeSearch({ key: id })}
        initialSort="-used"
        filters={{ find: undefined, show: 'all' }}
        empty={
          <Empty icon="keys" title={texts.keys.emptyTitle} action={create}>
            <p>{texts.keys.emptyText}</p>
          </Empty>
        }
      />
      {search.get('new') === 'key' && created === undefined && (
        <CreateKey onClose={() => changeSearch({ new: undefined })} onCreated={setCreated} />
      )}
      {created !== undefined && (
        <SecretSheet
          created={created}
          onClose={() => {
            setCreated(undefined);
            changeSearch({ new: undefined, key: undefined });
          }}
        />
      )}
      {open && created === undefined && (
        <KeyDetail
          keyRecord={open}
          spend={spend?.get(open) ?? 0}
          onClose={() => changeSearch({ key: undefined })}
          onRotated={setCreated}
        />
      )}
    </Page>
  );
}

/** For keys that cannot manage others: what they may do themselves. */
function OwnKeyPage() {
  const key = useOwnKey().data;
  const { columns } = texts.keys;
  return (
    <Page title={texts.keys.own} about={texts.keys.forbidden}>
      <div class="stack">
        {key === undefined ? (
          <Skeleton height={180} />
        ) : (
          <Card title={key.name}>
            <Details
              rows={[
                [columns.key, <Copyable key="id" text={key.id} />],
                [columns.scopes, <KeyRights key="access" keyRecord={key} />],
                [columns.expires, key.expires_at === null ? texts.common.never : exactTime(key.expires_at)],
              ]}
            />
          </Card>
        )}
        <Budget />
      </div>
    </Page>
  );
}

/** The secret of a new key, shown this once and kept nowhere. */
function SecretSheet({ created, onClose }: { created: NewKey; onClose: () => void }) {
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
