import { expect, it } from 'vitest';
import document from '../docs/openapi.json' with { type: 'json' };
import { openOperations, walkSchema } from './acceptance/request-bodies.ts';

it('bounds every list, text and free object of every request', () => {
  const unbounded = openOperations(document).flatMap(({ name, inputs }) =>
    inputs.flatMap(({ place, schema }) =>
      [...walkSchema(schema)].flatMap(({ path, schema: { type, format, enum: choices, ...limits } }) => {
        const isFree =
          type === 'object' &&
          (limits.patternProperties !== undefined || typeof limits.additionalProperties === 'object');
        const isBounded =
          (type !== 'string' ||
            limits.maxLength !== undefined ||
            format === 'binary' ||
            choices !== undefined ||
            'const' in limits) &&
          (type !== 'array' || limits.maxItems !== undefined) &&
          (!isFree || limits.maxProperties !== undefined);
        return isBounded ? [] : [`${name} ${[place, ...path].join('.')}`];
      }),
    ),
  );
  expect(unbounded).toEqual([]);
});
