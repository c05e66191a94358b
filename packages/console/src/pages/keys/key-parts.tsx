import { DEFAULT_SCOPES, SCOPES } from '@baobab/core/domain/scopes.ts';
import type { Key } from '../../api/types.ts';
import { Badge } from '../../components/feedback.tsx';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';

/** Scopes of a key that reads but runs nothing. */
export const READ_SCOPES = ['models', 'usage'];
/** Scopes that a person may choose one by one. */
export const CHOICES: readonly string[] = SCOPES.filter((scope) => scope !== 'admin');

export function keyState(key: Key, now: number): 'active' | 'expired' | 'revoked' {
  if (key.revoked_at !== null && Date.parse(key.revoked_at) <= now) return 'revoked';
  return key.expires_at !== null && Date.parse(key.expires_at) <= now ? 'expired' : 'active';
}

export function KeyStatus({ keyRecord, now }: { keyRecord: Key; now: number }) {
  const state = keyState(keyRecord, now);
  if (state === 'active') return <Badge tone="good">{texts.keys.active}</Badge>;
  return state === 'expired' ? (
    <Badge tone="warn">{texts.keys.expired}</Badge>
  ) : (
    <Badge tone="bad">{texts.keys.revoked}</Badge>
  );
}

export function KeyRights({ keyRecord: { scopes } }: { keyRecord: Pick<Key, 'scopes'> }) {
  const names = scopes.map((scope) => labelOf(texts.keys.scopeNames, scope)).join(', ');
  if (scopes.includes('admin'))
    return (
      <span title={names}>
        <Badge tone="info">{texts.keys.admin}</Badge>
      </span>
    );
  if (DEFAULT_SCOPES.length === scopes.length && DEFAULT_SCOPES.every((scope) => scopes.includes(scope)))
    return <span title={names}>{texts.keys.standard}</span>;
  if (scopes.every((scope) => READ_SCOPES.includes(scope))) return <span title={names}>{texts.keys.readOnly}</span>;
  return (
    <span class="truncate" title={names}>
      {names}
    </span>
  );
}

export function KeyModels({ keyRecord: { allowed_models: models } }: { keyRecord: Key }) {
  if (models.length === 0) return <span class="muted">{texts.common.all}</span>;
  return (
    <span class="truncate mono" title={models.join('\n')}>
      {models[0]}
      {models.length > 1 && ` +${models.length - 1}`}
    </span>
  );
}
