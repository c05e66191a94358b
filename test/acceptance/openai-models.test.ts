import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError, PermissionDeniedError } from 'openai';
import { describe, expect, it } from 'vitest';
import { openAccount } from './shared-account.ts';

const SLUG = 'baai/bge-small-en-v1.5';
const schemas = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/openai-schemas/models.json'), 'utf8'));
const official = new Ajv({ strict: false }).addSchema(schemas, 'openai');

function expectOfficial(name: 'Model' | 'ListModelsResponse' | 'ErrorResponse', value: unknown): void {
  const valid = official.validate({ $ref: `openai#/components/schemas/${name}` }, value);
  expect(valid, official.errorsText()).toBe(true);
}

const connect = (apiKey: string) => new OpenAI({ baseURL: `${server.address}/v1`, apiKey, maxRetries: 0 });
const raw = async (path: string) => {
  const answer = await fetch(`${server.address}${path}`, { headers: { authorization: `Bearer ${server.apiKey}` } });
  return { status: answer.status, body: JSON.parse(await answer.text()), headers: answer.headers };
};

const server = await openAccount();
const client = connect(server.adminKey);

describe('the list of models', () => {
  it('is what the official client and schema expect', async () => {
    const models = [];
    for await (const model of client.models.list()) models.push(model);
    expect(models.length).toBeGreaterThan(10);
    expect(models.map(({ id }) => id)).toContain(SLUG);
    const { body, headers } = await raw('/v1/models');
    expectOfficial('ListModelsResponse', body);
    expect(headers.get('x-request-id')).toMatch(/^req_/);
  });

  it('has every field of the specification in its exact type', async () => {
    const { body } = await raw('/v1/models');
    const nullOr = (type: string) => (value: unknown) => value === null || typeof value === type;
    for (const model of body.data) {
      expectOfficial('Model', model);
      expect(model.id).toMatch(/^[a-z0-9][a-z0-9._-]*\/[a-z0-9][a-z0-9._-]*$/);
      expect(model.owned_by).toBe(model.id.split('/')[0]);
      expect(['chat', 'embedding', 'rerank', 'audio']).toContain(model.modality);
      expect(Number.isInteger(model.context_length)).toBe(true);
      expect(model.max_output_tokens).toSatisfy((value) => value === null || Number.isInteger(value));
      expect(Number.isInteger(model.dimensions)).toBe(model.modality === 'embedding');
      expect(model.regions).toSatisfy(
        (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
      );
      expect(Object.keys(model.capabilities).toSorted()).toEqual(['json_mode', 'structured_output', 'tools', 'vision']);
      for (const each of Object.values(model.capabilities)) expect(typeof each).toBe('boolean');
      for (const name of ['prompt_per_million', 'completion_per_million', 'cache_read_per_million']) {
        expect(model.pricing[name], `${model.id} ${name}`).toSatisfy(nullOr('number'));
      }
      expect(model.deprecated_at).toSatisfy(nullOr('string'));
      expect(model.versions.map((each: { version: string }) => each.version)).toContain(model.version);
      expect(model.hosting).toBe('shared');
      expect(['ready', 'cold', 'unavailable']).toContain(model.status);
      expect(model.regions.length === 0).toBe(model.status === 'unavailable');
    }
  });

  it('can be narrowed by modality, provider and region', async () => {
    const ids = async (query: string) =>
      (await raw(`/v1/models?${query}`)).body.data.map((each: { id: string }) => each.id);
    expect(await ids('modality=embedding&provider=baai')).toContain(SLUG);
    expect(await ids('modality=chat&provider=baai')).toEqual([]);
    expect(await ids('region=mars')).toEqual([]);
    expect((await ids('region=local')).length).toBeGreaterThan(0);
    expect(await raw('/v1/models?modality=smell')).toMatchObject({
      status: 400,
      body: { error: { param: 'modality' } },
    });
  });
});

describe('one model', () => {
  it('is found by slug with %2F, with a plain slash, and by pin', async () => {
    const model = await client.models.retrieve(SLUG);
    expect(model.id).toBe(SLUG);
    expectOfficial('Model', (await raw(`/v1/models/${encodeURIComponent(SLUG)}`)).body);
    expect((await raw(`/v1/models/${SLUG}`)).body).toMatchObject({ id: SLUG, dimensions: 384 });
    const { version } = (await raw(`/v1/models/${SLUG}`)).body;
    const pinned = await client.models.retrieve(`${SLUG}@${version}`);
    expect(pinned).toMatchObject({ id: `${SLUG}@${version}`, version });
    expect((await raw(`/v1/models/${SLUG}@${version}`)).status).toBe(200);
  });
});

describe('errors are those of the official client, with request ids', () => {
  const failure = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.unreachable('it should have failed'),
      (error) => error as InstanceType<typeof OpenAI.APIError>,
    );

  it('401 for an unknown key', async () => {
    const error = await failure(
      connect('sk-unknown-0123456789')
        .models.list()
        .then(() => {}),
    );
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: 'invalid_api_key', type: 'authentication_error' });
    expect(error.requestID).toMatch(/^req_[0-9a-z]{24}$/);
  });

  it('403 for a key without the scope, and for a revoked one', async () => {
    const create = (body: object) =>
      client.post<unknown>('/admin/keys', { body: { account: 'default', name: 'x', ...body } }) as Promise<{
        id: string;
        secret: string;
      }>;
    const narrow = await create({ scopes: ['chat'] });
    const error = await failure(connect(narrow.secret).models.retrieve(SLUG));
    expect(error).toBeInstanceOf(PermissionDeniedError);
    expect(error).toMatchObject({ status: 403, code: 'insufficient_scope', type: 'permission_error' });
    expect(error.requestID).toMatch(/^req_/);
    const wide = await create({});
    await client.post(`/admin/keys/${wide.id}/revoke`);
    const revoked = await failure(connect(wide.secret).models.retrieve(SLUG));
    expect(revoked).toBeInstanceOf(PermissionDeniedError);
    expect(revoked).toMatchObject({ status: 403, code: 'key_revoked' });
  });

  it('404 for an unknown model, an unknown pin and an unknown endpoint', async () => {
    for (const reference of ['acme/none', `${SLUG}@2020-01-01`, 'nonsense']) {
      const error = await failure(client.models.retrieve(reference));
      expect(error).toBeInstanceOf(NotFoundError);
      expect(error).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
      expect(error.requestID).toMatch(/^req_/);
    }
    expect(await failure(client.get('/threads'))).toMatchObject({ status: 404, code: 'unknown_endpoint' });
  });

  it('400 with the offending parameter, in the official shape', async () => {
    const error = await failure(client.embeddings.create({ model: SLUG, input: [''] }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error.param).toBe('input[0]');
    expectOfficial('ErrorResponse', { error: error.error });
  });
});
