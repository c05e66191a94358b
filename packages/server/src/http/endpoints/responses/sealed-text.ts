/**
 * Clients that keep the conversation themselves send back only the `encrypted_content` of reasoning and compaction items. The text is
 * the client's own, so it is encoded, not encrypted.
 */
const PREFIX = 'baobab.';

export const sealText = (text: string): string => `${PREFIX}${Buffer.from(text).toString('base64url')}`;

/** Empty if it came from another server. */
export const openText = (sealed: string | null | undefined): string =>
  sealed?.startsWith(PREFIX) ? Buffer.from(sealed.slice(PREFIX.length), 'base64url').toString() : '';
