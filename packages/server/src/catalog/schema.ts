import { forEachPrice } from '@baobab/core/domain/measures.ts';
import { MODALITIES, TRUNCATE_INPUTS } from '@baobab/core/domain/model.ts';
import { FILE_NAME, fileName } from '@baobab/core/engine/driver.ts';
import { type Static, type TSchema, Type } from 'typebox';
import { patternInWords } from '../validation/expectation.ts';

const strict = { additionalProperties: false } as const;
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const prices = forEachPrice(() => Type.Union([Type.Number({ minimum: 0 }), Type.Null()], { default: null }));
const date = Type.String(patternInWords('^\\d{4}-\\d{2}-\\d{2}$', 'a date such as 2026-11-15'));
const sha256 = Type.String(patternInWords('^[0-9a-f]{64}$', 'a SHA-256 in 64 small hexadecimal digits'));
patternInWords(FILE_NAME, 'a relative path such as onnx/model.onnx, whose names do not begin with a dot');

/** The other fields are those of the driver, which checks them itself. */
const Engine = Type.Object({ driver: Type.String(), task: Type.String() });

const SourceFile = Type.Object(
  {
    as: fileName,
    sha256: Type.Optional(sha256),
    bytes: Type.Optional(Type.Integer({ minimum: 1 })),
    path: Type.Optional(Type.String({ minLength: 1 })),
    from: Type.Optional(
      Type.Array(Type.Object({ package: Type.String(), version: Type.String(), path: Type.String() }, strict), {
        minItems: 1,
      }),
    ),
  },
  strict,
);

const sourceFields = {
  repo: Type.Optional(Type.String()),
  revision: Type.Optional(Type.String()),
  path: Type.Optional(Type.String()),
  files: Type.Optional(Type.Array(SourceFile, { minItems: 1 })),
};
const Mirror = Type.Object({ kind: Type.Enum(['npm', 'pypi', 'maven', 'hf']), ...sourceFields }, strict);
const Source = Type.Object(
  {
    kind: Type.Enum(['npm', 'pypi', 'maven', 'hf', 'file']),
    ...sourceFields,
    mirrors: Type.Optional(Type.Array(Mirror, { minItems: 1 })),
  },
  strict,
);

const Version = Type.Object(
  {
    version: date,
    deprecatedAt: Type.Optional(date),
    /** When the removal was announced; needed with a removal date. */
    noticeAt: Type.Optional(date),
    retiredAt: Type.Optional(date),
    engine: Engine,
    source: Type.Optional(Source),
  },
  strict,
);

/** One catalog file describes one model. */
export const CatalogFile = Type.Object(
  {
    slug: Type.String({
      ...patternInWords(
        '^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$',
        'a provider and a name such as acme/writer-8b, of small letters, digits, dots, _ and -, at most 200 characters',
      ),
      maxLength: 200,
    }),
    modality: Type.Enum([...MODALITIES]),
    description: Type.String({ minLength: 1 }),
    languages: Type.Array(Type.String()),
    license: Type.String({ minLength: 1 }),
    created: date,
    contextLength: Type.Integer({ minimum: 1 }),
    maxOutputTokens: nullable(Type.Integer({ minimum: 1 })),
    dimensions: nullable(Type.Integer({ minimum: 1 })),
    truncation: Type.Boolean({ default: false }),
    truncateInputs: Type.Optional(Type.Enum([...TRUNCATE_INPUTS])),
    starter: Type.Boolean({ default: false }),
    specialist: Type.Optional(Type.Boolean()),
    capabilities: Type.Object(
      { tools: Type.Boolean(), jsonMode: Type.Boolean(), vision: Type.Boolean(), structuredOutput: Type.Boolean() },
      strict,
    ),
    pricing: Type.Object(prices, strict),
    limits: Type.Optional(
      Type.Object(
        { rpm: Type.Optional(Type.Integer({ minimum: 1 })), tpm: Type.Optional(Type.Integer({ minimum: 1 })) },
        strict,
      ),
    ),
    recommended: date,
    versions: Type.Array(Version, { minItems: 1 }),
    /** Engine of the only version, in place of `versions`; moved into it when the file is read. */
    engine: Type.Optional(Type.Object({})),
    source: Type.Optional(Type.Object({})),
  },
  strict,
);

export type CatalogFile = Static<typeof CatalogFile>;

/** Tells what is wrong in a file. `path` leads to the field. */
export type Report = (path: readonly (string | number)[], text: string) => void;
