import { useOwnKey } from '../../api/queries.ts';
import { Copyable } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { Budget } from '../overview/budget.tsx';
import { KeyRights } from './key-parts.tsx';

/** For keys that cannot manage others: what they may do themselves. */
export function OwnKeyPage() {
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
                [
                  columns.expires,
                  key.expires_at === null ? texts.common.never : `${dateTime(key.expires_at, 'UTC')} UTC`,
                ],
              ]}
            />
          </Card>
        )}
        <Budget />
      </div>
    </Page>
  );
}
