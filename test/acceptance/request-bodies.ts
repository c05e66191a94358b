import { wavFile } from '../../packages/server/src/upstreams/transcription.ts';

/** A part of a JSON schema in `docs/openapi.json`. */
export interface Schema {
  type?: string;
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  const?: unknown;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maxItems?: number;
  maxProperties?: number;
  required?: readonly string[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  patternProperties?: Readonly<Record<string, Schema>>;
  additionalProperties?: boolean | Schema;
  anyOf?: readonly Schema[];
  allOf?: readonly Schema[];
}

interface Document {
  paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            parameters?: readonly { name: string; in: string; schema: Schema }[];
            requestBody?: { content: Readonly<Record<string, { schema: Schema }>> };
          }
        >
      >
    >
  >;
}

/** Everything that a client can send to one operation. `place` is the media type of a body, or `query.limit`. */
export interface OpenOperation {
  name: string;
  method: string;
  path: string;
  inputs: { place: string; schema: Schema }[];
}

export const openOperations = (document: unknown): OpenOperation[] =>
  Object.entries((document as Document).paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { parameters = [], requestBody }]) => ({
      name: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      path,
      inputs: [
        ...parameters.map((each) => ({ place: `${each.in}.${each.name}`, schema: each.schema })),
        ...Object.entries(requestBody?.content ?? {}).map(([place, { schema }]) => ({ place, schema })),
      ],
    })),
  );

export interface Place {
  /** Names of members; `[]` for the items of a list. */
  path: readonly string[];
  schema: Schema;
}

/** Alternatives. Beside members, they are rules between fields. */
const branchesOf = ({ properties, anyOf = [] }: Schema): readonly Schema[] => (properties === undefined ? anyOf : []);

/** A schema and all that it is made of. */
export function* walkSchema(schema: Schema, path: readonly string[] = []): Generator<Place> {
  yield { path, schema };
  for (const branch of branchesOf(schema)) yield* walkSchema(branch, path);
  for (const [name, member] of Object.entries(schema.properties ?? {})) yield* walkSchema(member, [...path, name]);
  for (const member of Object.values(schema.patternProperties ?? {})) yield* walkSchema(member, [...path, '*']);
  if (schema.items !== undefined) yield* walkSchema(schema.items, [...path, '[]']);
}

/** Values that a schema cannot describe. */
const SAMPLES: Readonly<Record<string, string>> = {
  image_url: 'data:image/png;base64,AAAA',
  url: 'data:image/png;base64,AAAA',
  image: 'data:image/png;base64,AAAA',
  file_data: 'data:text/plain;base64,AAAA',
  conversation: '@conversation',
  id: 'i@number',
  custom_id: 'c@number',
  role: 'user',
};
const FILL = '@fill';
/** The text that most kinds of an item have, or the first one. */
const TEXT_OF_ITEM = /("content":|"text":)?"x"/;
const WORDS = 'she said "so" ';

const contains = (schema: Schema, target: Schema): boolean =>
  [...walkSchema(schema)].some((each) => each.schema === target);

/** The kinds of an object whose `type` is any text: those that its description lists, and one that no server knows. */
function kindsOf(schema: Schema): string[] {
  const types = [schema, ...(schema.anyOf ?? [])].flatMap(({ properties }) => properties?.type ?? []);
  const texts = types.flatMap((type) => [type, ...(type.anyOf ?? [])]).filter(({ type }) => type === 'string');
  if (texts.every((text) => text.enum !== undefined || text.const !== undefined)) return [];
  const described = types.map(({ description = '' }) => description).join(' ');
  return [...[...described.matchAll(/`([a-z_]+)`/g)].map((found) => found[1] ?? ''), 'unheard_of'];
}

/** Makes bodies with one part that is as large as the schema allows. */
class Filler {
  readonly #model: string;
  readonly #bytes: number;

  constructor({ model, bytes }: { model: string; bytes: number }) {
    this.#model = model;
    this.#bytes = bytes;
  }

  /** The text of a body in which the target, a list or a text, is filled. */
  body(root: Schema, target: Schema, kind: string | undefined, more: object): string {
    const body = { ...(this.#around(root, '', target, kind) as object), ...more };
    return JSON.stringify(body)
      .replace(JSON.stringify(FILL), () => this.#fill(target, kind))
      .replaceAll('@number', '0');
  }

  #fill(target: Schema, kind: string | undefined): string {
    if (target.type === 'string') {
      const length = Math.min(target.maxLength ?? Number.POSITIVE_INFINITY, this.#bytes);
      return JSON.stringify(WORDS.repeat(length / WORDS.length));
    }
    const item = JSON.stringify(this.#sample(target.items ?? {}, '', kind));
    // About half of it is one text of each item, which is what most kinds are read for.
    const count = Math.min(
      target.maxItems ?? Number.POSITIVE_INFINITY,
      Math.floor(this.#bytes / (2 * item.length + 8)),
    );
    const room = Math.floor(this.#bytes / count) - item.length - 4;
    const long = item.replace(
      TEXT_OF_ITEM,
      (_, name = '') => `${name}${JSON.stringify('x'.repeat(Math.max(1, room)))}`,
    );
    return `[${Array.from({ length: count }, (_, index) => long.replaceAll('@number', `${index}`)).join(',')}]`;
  }

  /** A small value with the target in it. */
  #around(schema: Schema, name: string, target: Schema, kind: string | undefined): unknown {
    if (schema === target) return FILL;
    const branch = branchesOf(schema).find((each) => contains(each, target));
    if (branch !== undefined) return this.#around(branch, name, target, kind);
    if (schema.items !== undefined) return [this.#around(schema.items, name, target, kind)];
    const [member = '*', child = {}] =
      Object.entries({ ...schema.properties, ...schema.patternProperties }).find(([, each]) =>
        contains(each, target),
      ) ?? [];
    const isOwner = child === target || (child.anyOf ?? []).includes(target);
    const own = isOwner && target.type === 'string' ? kind : undefined;
    const sampled = this.#sample(schema, name, own ?? kindsOf(schema)[0]) as object;
    return { ...sampled, [member.startsWith('^') ? 'a' : member]: this.#around(child, member, target, kind) };
  }

  /** A small value. An object of a kind has all its members: other kinds ignore them. */
  #sample(schema: Schema, name: string, kind: string | undefined): unknown {
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return SAMPLES[name] ?? schema.enum[0];
    const branch = branchesOf(schema).find(({ type }) => type !== 'null');
    if (branch !== undefined) return this.#sample(branch, name, kind);
    if (schema.type === 'string') return name === 'model' ? this.#model : (SAMPLES[name] ?? 'x');
    if (schema.type === 'integer' || schema.type === 'number') return schema.minimum ?? 1;
    if (schema.type === 'boolean') return false;
    if (schema.type === 'array') return [this.#sample(schema.items ?? {}, name, undefined)];
    const members = Object.entries(schema.properties ?? {}).filter(
      ([member]) =>
        kind !== undefined || schema.required?.includes(member) || schema.anyOf?.[0]?.required?.includes(member),
    );
    return Object.fromEntries(
      members.map(([member, child]) => [
        member,
        member === 'type' && kind !== undefined ? kind : this.#sample(child, member, kindsOf(child)[0]),
      ]),
    );
  }
}

/** Shorter texts cost nothing. */
const LONG_TEXT = 10_000;

/** For each list and each long text of the schema of a body, bodies that fill it. */
export function* filledBodies(
  root: Schema,
  options: { model: string; bytes: number; everyKind: boolean },
): Generator<{ name: string; isList: boolean; body: string }> {
  const filler = new Filler(options);
  const places = [...walkSchema(root)];
  const continued = root.properties?.conversation === undefined ? [] : [{ conversation: '@conversation' }];
  for (const { path, schema } of places) {
    const isLongText = schema.type === 'string' && schema.enum === undefined && (schema.maxLength ?? 0) > LONG_TEXT;
    if (schema.type !== 'array' && !isLongText) continue;
    const owner = places.find(({ schema: each }) =>
      Object.values(each.properties ?? {}).some((child) => child === schema || child.anyOf?.includes(schema)),
    );
    const isList = schema.type === 'array';
    const kinds: (string | undefined)[] = kindsOf(isList ? (schema.items ?? {}) : (owner?.schema ?? {}));
    const tried = isList || options.everyKind ? kinds : kinds.slice(0, 1);
    for (const kind of tried.length === 0 ? [undefined] : tried) {
      for (const more of isList && path.length === 1 ? [{}, ...continued] : [{}]) {
        const name = [path.join('.'), schema.type, kind, ...Object.keys(more)].filter(Boolean).join(' ');
        yield { name, isList, body: filler.body(root, schema, kind, more) };
      }
    }
  }
}

/** What a field of a form takes beside its text. */
const FIELD_BYTES = 120;
const silence = (bytes: number) => new Blob([new Uint8Array(wavFile(new Float32Array(bytes / 2)))]);

/** For each field of a form, and for one that no server knows, forms with a long one and with many of them. */
export function* filledForms(
  root: Schema,
  { model, bytes }: { model: string; bytes: number },
): Generator<{ name: string; body: FormData }> {
  const fields = Object.keys(root.properties ?? {});
  for (const field of [...fields, 'unheard_of']) {
    const often = Array.from({ length: bytes / FIELD_BYTES }, () => 'x');
    for (const [amount, texts] of Object.entries({ long: [WORDS.repeat(bytes / WORDS.length)], often })) {
      const body = new FormData();
      const isFile = root.properties?.[field]?.format === 'binary';
      for (const text of texts) body.append(field, isFile ? silence(amount === 'long' ? bytes : 0) : text);
      for (const other of fields.filter((each) => each !== field && !each.endsWith(']'))) {
        const { format, enum: [first] = ['x'] } = root.properties?.[other] ?? {};
        if (format === 'binary') body.append(other, silence(1_000), 'a.wav');
        else if (root.required?.includes(other)) body.append(other, other === 'model' ? model : String(first));
      }
      yield { name: `${field} ${amount}`, body };
    }
  }
}
