import { isOperator } from '@baobab/core/domain/operations.ts';
import { useAccount } from '../../api/queries.ts';
import { useSession, useWorkAccount } from '../../api/session.ts';
import { texts } from '../../texts/en/texts.ts';

/** The account that the page works for, by its name. */
function useWorkName(): { name: string; isOwn: boolean; isDeleted: boolean } {
  const { account: own } = useSession();
  const { id } = useWorkAccount();
  const isOwn = id === own.id;
  const found = useAccount(isOwn ? undefined : id);
  return { name: isOwn ? own.name : (found?.name ?? id), isOwn, isDeleted: found?.status === 'deleted' };
}

/** The sentence of a page, with whose things it shows: operators see several accounts. */
export function useWorkAbout(about: string): string {
  const session = useSession();
  const { name, isOwn, isDeleted } = useWorkName();
  if (!isOperator(session)) return about;
  if (isDeleted) return `${about} ${texts.nav.ofDeleted(name)}`;
  return `${about} ${isOwn ? texts.nav.ofAccount(name) : `${texts.nav.ofAccount(name)} ${texts.nav.audited}`}`;
}

export function useBilledTo(about: string): string {
  const { name, isOwn, isDeleted } = useWorkName();
  if (isDeleted) return `${about} ${texts.nav.ofDeleted(name)}`;
  return `${about} ${texts.playground.billedTo(name)}${isOwn ? '' : ` ${texts.nav.audited}`}`;
}
