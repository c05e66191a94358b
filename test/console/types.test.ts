import type { Static, TSchema } from 'typebox';
import { expectTypeOf, it } from 'vitest';
import type * as Console from '../../console/api/types.ts';
import type { AccountShape } from '../../src/http/endpoints/admin/accounts/schema.ts';
import type { AuditEntryShape } from '../../src/http/endpoints/admin/audit/schema.ts';
import type { EngineShape } from '../../src/http/endpoints/admin/engines/schema.ts';
import type { SystemShape } from '../../src/http/endpoints/admin/system/schema.ts';
import type { BatchObject } from '../../src/http/endpoints/batches/schema.ts';
import type { EVENTS } from '../../src/http/endpoints/events/schema.ts';
import type { File } from '../../src/http/endpoints/files/schema.ts';
import type { OwnKeyShape } from '../../src/http/endpoints/keys/own-key/schema.ts';
import type { IssuedKeyShape, KeyShape } from '../../src/http/endpoints/keys/schema.ts';
import type { Model } from '../../src/http/endpoints/models/schema.ts';
import type { PerformanceReport } from '../../src/http/endpoints/performance/schema.ts';
import type { RequestDetail, RequestEntryShape } from '../../src/http/endpoints/requests/schema.ts';
import type { SessionShape } from '../../src/http/endpoints/sessions/schema.ts';
import type { UsageResponse } from '../../src/http/endpoints/usage/schema.ts';

/** What the console assumes of an answer must hold for every answer of the schema that docs/openapi.json is written from. */
type Answer<Schema extends TSchema> = Static<Schema>;

// Checked by the compiler: `tsc` fails when a field is missing or of another type.
it('gives the console the fields that its types name', () => {
  expectTypeOf<Answer<typeof SessionShape>>().toExtend<Console.Session>();
  expectTypeOf<Answer<typeof UsageResponse>>().toExtend<Console.UsageReport>();
  expectTypeOf<Answer<typeof PerformanceReport>>().toExtend<Console.PerformanceReport>();
  expectTypeOf<Answer<typeof RequestEntryShape>>().toExtend<Console.RequestEntry>();
  expectTypeOf<Answer<typeof RequestDetail>>().toExtend<Console.RequestDetail>();
  expectTypeOf<Answer<typeof AuditEntryShape>>().toExtend<Console.AuditEntry>();
  expectTypeOf<Answer<typeof OwnKeyShape>>().toExtend<Console.OwnKey>();
  expectTypeOf<Answer<typeof KeyShape>>().toExtend<Console.Key>();
  expectTypeOf<Answer<typeof IssuedKeyShape>>().toExtend<Console.NewKey>();
  expectTypeOf<Answer<typeof AccountShape>>().toExtend<Console.Account>();
  expectTypeOf<Answer<typeof Model>>().toExtend<Console.Model>();
  expectTypeOf<Answer<typeof File>>().toExtend<Console.StoredFile>();
  expectTypeOf<Answer<typeof BatchObject>>().toExtend<Console.Batch>();
  expectTypeOf<Answer<typeof EngineShape>>().toExtend<Console.Engine>();
  expectTypeOf<Answer<typeof SystemShape>>().toExtend<Console.SystemReport>();
  expectTypeOf<Answer<(typeof EVENTS)['counters']>>().toExtend<Console.Counters>();
});
