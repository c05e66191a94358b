/** The shapes of the HTTP API, for commands with `--json`: both print the same names and amounts. */
export { accountToWire } from '../http/endpoints/admin/accounts/schema.ts';
export { auditEntryToWire } from '../http/endpoints/admin/audit/schema.ts';
export { serverToWire } from '../http/endpoints/admin/servers/schema.ts';
export { batchToWire } from '../http/endpoints/batches/schema.ts';
export { keyToWire } from '../http/endpoints/keys/schema.ts';
export { usageToCsv } from '../http/endpoints/usage/csv.ts';
export { bucketToWire, sumsToWire } from '../http/endpoints/usage/schema.ts';
