import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { fillAbsentBody } from './optional-body.ts';

const app = Fastify();
app.post('/', { preValidation: fillAbsentBody, schema: { body: { type: 'object' } } }, async (request) => request.body);

test('takes a request without a body for one with an empty one', async () => {
  expect((await app.inject({ method: 'POST', url: '/' })).json()).toEqual({});
});

test('refuses a body of null', async () => {
  const response = await app.inject({
    method: 'POST',
    url: '/',
    payload: 'null',
    headers: { 'content-type': 'application/json' },
  });
  expect(response.statusCode).toBe(400);
});
