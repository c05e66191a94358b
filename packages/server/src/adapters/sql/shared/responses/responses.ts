import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import type { SqlDatabase } from '../database.ts';
import { sqlBackgroundResponses } from './background-responses.ts';
import { sqlResponseEvents } from './response-events.ts';
import { sqlResponseRecords } from './response-records.ts';

export const sqlResponses = (database: SqlDatabase): ResponseRepository => ({
  ...sqlResponseRecords(database),
  ...sqlBackgroundResponses(database),
  ...sqlResponseEvents(database),
});
