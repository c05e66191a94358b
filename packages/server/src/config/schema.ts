import { homedir } from 'node:os';
import { join } from 'node:path';
import { type Static, type TOptional, type TSchema, type TString, type TStringOptions, Type } from 'typebox';
import { driverSettings } from '../drivers.ts';
import { UpstreamSchema } from '../upstreams/upstream-settings.ts';
import { patternInWords } from '../validation/expectation.ts';

/**
 * Every setting, once. A key `dataDir` is `data_dir` in baobab.yaml, `BAOBAB_DATA_DIR` in the environment and `--data-dir` on
 * the command line; nested keys are joined: `files.maxBytes` is `BAOBAB_FILES_MAX_BYTES` and `--files-max-bytes`.
 */
const section = <T extends Record<string, TSchema>>(properties: T, description: string) =>
  Type.Object(properties, { additionalProperties: false, default: {}, description });

const count = (value: number, description: string, minimum = 0) =>
  Type.Integer({ minimum, default: value, description });

/** Node ends a longer timer after one millisecond. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const milliseconds = (value: number, description: string, minimum = 0) =>
  Type.Integer({ minimum, maximum: LONGEST_TIMER_MS, default: value, description });

const seconds = (value: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 2_000_000, default: value, description });

/** At most a hundred years: the end of the time must be a date that can be written. */
const days = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, maximum: 36_500, default: value, description });

/** A secret `x` and `xFile`, the path of a file with its value (see secret-files.ts). */
const secret = <Name extends string>(name: Name, description: string, options: TStringOptions = { minLength: 1 }) =>
  ({
    [name]: Type.Optional(Type.String({ ...options, description, secret: true })),
    [`${name}File`]: Type.Optional(Type.String({ minLength: 1, description: `${description}; read from this file` })),
  }) as Record<Name | `${Name}File`, TOptional<TString>>;

const limits = (rpm: number, tpm: number) =>
  section(
    { rpm: count(rpm, 'Requests a minute', 1), tpm: count(tpm, 'Tokens a minute', 1) },
    'Default limits for each key, model and region',
  );

const AliasSchema = Type.Object(
  {
    name: Type.String({
      ...patternInWords(
        '^[A-Za-z0-9][A-Za-z0-9._:/-]*$',
        'a name such as gpt-4o-mini, of letters, digits and . _ : / -, at most 200 characters',
      ),
      maxLength: 200,
      description: 'What clients send, for example gpt-4o-mini',
    }),
    model: Type.String({ description: 'Slug in the catalog, with an optional pin' }),
  },
  { additionalProperties: false },
);

export const ConfigSchema = Type.Object(
  {
    host: Type.String({ default: '127.0.0.1', description: 'Address to listen on' }),
    port: Type.Integer({
      minimum: 0,
      maximum: 65535,
      default: 8080,
      description: 'Port to listen on; 0 picks a free one',
    }),
    publicUrl: Type.Optional(
      Type.String({
        ...patternInWords('^https?://[^/?#@\\s]+$', 'an address without a path, such as https://api.example.com'),
        description:
          'Where people reach this server, for example https://api.example.com; with https, the cookie of the console is Secure whatever a proxy says',
      }),
    ),
    workers: Type.Union([Type.Integer({ minimum: 1, maximum: 256 }), Type.Literal('auto')], {
      default: 1,
      description: 'HTTP processes on this port; auto: one for each core. More than one needs store and counters',
    }),
    dataDir: Type.String({ default: join(homedir(), '.baobab'), description: 'Database, files and engine state' }),
    modelsDir: Type.Optional(
      Type.String({
        description: 'Cache of weights, may be shared between data directories; <data_dir>/models by default',
      }),
    ),
    ...secret(
      'store',
      'Address of a PostgreSQL database, postgres://user:password@host:5432/baobab; SQLite in data_dir by default',
    ),
    storePatienceSeconds: Type.Integer({
      ...{ minimum: 0, maximum: 300, default: 10 },
      description: 'Requests wait so long when PostgreSQL is away, before they reach an engine',
    }),
    storeJournal: Type.Boolean({
      default: true,
      description:
        'What runs when PostgreSQL goes away is answered, and its bill waits in data_dir; false where data_dir does not outlive the server',
    }),
    ...secret(
      'counters',
      'Address of a Redis or Valkey for limits and budgets, redis://:password@host:6379 or redis+sentinel://host:26379/name; in memory by default',
    ),
    blobs: Type.Optional(
      Type.String({
        description: 'Bucket for files and stored answers, s3://bucket/prefix; the disk of data_dir by default',
      }),
    ),
    blobsEndpoint: Type.Optional(
      Type.String({ description: 'Address of an S3 server other than AWS, for example http://127.0.0.1:9000' }),
    ),
    blobsPresignedDownloads: Type.Boolean({
      default: false,
      description: 'Answer downloads of files with a redirect to S3, which the client must be able to reach',
    }),
    ...secret('firstKey', 'The first key, set on an empty store instead of a random one', {
      ...patternInWords('^[\\x21-\\x7e]+$', 'a secret of 16 to 200 letters, digits and signs without spaces'),
      minLength: 16,
      maxLength: 200,
    }),
    region: Type.String({
      ...patternInWords(
        '^[a-z0-9][a-z0-9-]{0,31}$',
        'a code such as eu-west-1, of at most 32 small letters, digits and -',
      ),
      default: 'local',
      description: 'Code of the region of this server',
    }),
    catalogDir: Type.Optional(
      Type.String({ description: 'Directory of catalog files in addition to the built-in ones' }),
    ),
    log: section(
      {
        level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'], {
          default: 'info',
          description: 'Least level to log: trace, debug, info, warn, error or silent',
        }),
        format: Type.Enum(['auto', 'json', 'pretty'], {
          default: 'auto',
          description: 'json, pretty or auto: pretty on a terminal',
        }),
      },
      'Logging',
    ),
    http: section(
      {
        bodyLimitBytes: count(33_554_432, 'Largest JSON body', 1024),
        headerLimitBytes: count(16_384, 'Largest request head', 1024),
        headersTimeoutMs: milliseconds(15_000, 'A client must send its head within this time', 100),
        requestTimeoutMs: milliseconds(300_000, 'A client must send its whole request within this time', 100),
        keepAliveTimeoutMs: milliseconds(75_000, 'Close idle connections after this time'),
        writeTimeoutMs: milliseconds(
          30_000,
          'Close a connection whose client reads less than 256 kB of its answer in this time',
          100,
        ),
        drainDelayMs: milliseconds(
          0,
          'After a signal to stop, requests are still accepted for this time while /readyz says not ready, so that a load balancer sends them elsewhere',
        ),
        drainTimeoutMs: milliseconds(30_000, 'Time for running requests at shutdown'),
        trustedProxies: Type.Array(Type.String(), {
          default: [],
          description: 'Addresses and ranges of proxies that may name the client in X-Forwarded-For',
        }),
        corsOrigins: Type.Array(Type.String({ minLength: 1 }), {
          default: [],
          description: 'Origins such as https://app.example whose pages may call the API from a browser; *: every page',
        }),
        publicMetrics: Type.Boolean({
          default: false,
          description: 'Serve /metrics to everyone, not only to programs on this machine',
        }),
      },
      'HTTP server',
    ),
    tls: section(
      {
        cert: Type.Optional(
          Type.String({ minLength: 1, description: 'Path of the certificate chain, PEM; serves HTTPS, with tls.key' }),
        ),
        key: Type.Optional(Type.String({ minLength: 1, description: 'Path of the private key, PEM' })),
      },
      'HTTPS; the files are read again when they change',
    ),
    metrics: section(
      { ...secret('token', 'Bearer token that a request for /metrics must have', { minLength: 16 }) },
      'Prometheus metrics',
    ),
    models: section(
      {
        pullOnUse: Type.Boolean({
          default: true,
          description: 'Fetch missing weights when a model is first asked for',
        }),
        warm: Type.Array(Type.String(), { default: [], description: 'Slugs to load at start' }),
        idleUnloadSeconds: count(900, 'Unload a model after this time without requests; 0: never'),
        memoryBudgetMb: count(0, 'Memory for engine processes; 0: three quarters of the machine'),
        vramBudgetMb: count(0, 'Memory of GPUs for models; 0: nearly all of it'),
        retryUnavailableSeconds: count(60, 'Wait this long after weights could not be fetched', 1),
        hfEndpoint: Type.String({ default: 'https://huggingface.co', description: 'Hugging Face hub or a mirror' }),
        ...secret('hfToken', 'Hugging Face access token'),
        mavenRepository: Type.String({
          default: 'https://repo1.maven.org/maven2',
          description: 'Maven repository for weights in jars; may hold a user and password',
        }),
      },
      'Weights',
    ),
    engines: section(
      {
        queueLength: count(
          256,
          'Requests that may wait for one model; short ones for embeddings and reranking count an eighth',
          1,
        ),
        queueTimeoutSeconds: seconds(120, 'How long a request may wait'),
        loadTimeoutSeconds: seconds(300, 'How long a model may take to load'),
        hangTimeoutSeconds: seconds(120, 'Kill an engine process that is silent for this long while it has work'),
        permissionModel: Type.Boolean({
          default: true,
          description: "Run engine processes under Node's permission model: they read their model and write nothing",
        }),
        ...driverSettings,
      },
      'Engine processes',
    ),
    upstreams: Type.Array(UpstreamSchema, { default: [], description: 'Remote engines' }),
    aliases: Type.Array(AliasSchema, { default: [], description: 'Other names of models' }),
    limits: section(
      {
        chat: limits(600, 200_000),
        audio: limits(600, 200_000),
        embedding: limits(1_200, 2_000_000),
        rerank: limits(1_200, 2_000_000),
        concurrency: count(0, 'Requests at a time for each key; 0: no limit'),
        budgetWarningPercent: count(80, 'Warn from this share of a monthly budget on'),
      },
      'Rate limits',
    ),
    files: section(
      {
        maxBytes: count(536_870_912, 'Largest upload', 1),
        retentionDays: days(30, 'Files are deleted after this time'),
        quotaBytes: count(10_737_418_240, 'Stored bytes for each account, uploads in progress included; 0: no limit'),
        quotaFiles: count(10_000, 'Stored files for each account; 0: no limit'),
      },
      'Files store',
    ),
    requests: section(
      {
        retentionDays: days(30, 'GET /v1/requests lists requests for this time; 0: none are kept', 0),
        maxPerAccount: count(1_000_000, 'Requests kept for each account; the oldest are removed. 0: no limit'),
        textRetentionDays: days(7, 'Accounts with store_prompts keep prompts and answers for this time; 0: none', 0),
        textMaxBytes: count(65_536, 'Kept of each prompt and of each answer', 1),
        textQuotaBytes: count(1_073_741_824, 'Prompts and answers of each account; more are not kept. 0: no limit'),
      },
      'List of requests',
    ),
    reports: section(
      {
        limitSeconds: seconds(
          30,
          'A list or report of usage, requests or changes that takes longer is ended, with advice what to ask for instead',
        ),
      },
      'Lists and reports',
    ),
    audit: section(
      { retentionDays: days(400, 'Changes of accounts, keys and models are kept for this time') },
      'Audit log',
    ),
    disk: section(
      {
        reserveBytes: count(
          536_870_912,
          'With less free space in data_dir, uploads, batches and stored answers wait or are refused, and /readyz says not ready. Without effect when both store and blobs are set: nothing grows there then',
        ),
      },
      'Free space',
    ),
    idempotency: section(
      {
        quotaKeys: count(200_000, 'Idempotency keys of each account within 24 hours; 0: no limit'),
        quotaBytes: count(1_073_741_824, 'Stored answers of each account; larger ones are not replayed; 0: no limit'),
      },
      'Idempotency keys',
    ),
    responses: section(
      {
        retentionDays: days(30, 'Stored responses and conversations are deleted after this time'),
        quotaResponses: count(100_000, 'Stored responses and conversations for each account; 0: no limit'),
        quotaBytes: count(1_073_741_824, 'Their bytes for each account; 0: no limit'),
        maxActivePerAccount: count(100, 'Background responses of an account that have not ended; 0: no limit'),
        backgroundConcurrency: count(16, 'Most background responses that run at a time', 1),
      },
      'Stored responses',
    ),
    audio: section(
      {
        maxInlineBytes: count(26_214_400, 'Largest audio file sent with the request itself', 1),
        decoders: count(8, 'Audio files that are decoded at a time; each takes about 100 MB of memory', 1),
      },
      'Transcription',
    ),
    images: section(
      {
        maxPerRequest: count(16, 'Images in one request'),
        maxBytes: count(20_971_520, 'Images of one request together', 1),
        allowedHosts: Type.Array(Type.String({ minLength: 1 }), {
          default: [],
          description: 'Hosts such as images.example from which engines may fetch images; none by default',
        }),
      },
      'Images in chats and embeddings',
    ),
    documents: section(
      {
        maxPerRequest: count(16, 'PDF and other files in one request'),
        maxBytes: count(33_554_432, 'Files of one request together', 1),
        maxPages: count(1_000, 'Pages of one PDF file', 1),
        maxCharacters: count(2_000_000, 'Text of the files of one request together', 1),
        readers: count(4, 'PDF files that are read at a time; each takes about 100 MB of memory, at most 512 MB', 1),
      },
      'Files in chats',
    ),
    batches: section(
      {
        concurrency: count(
          32,
          "Most batch lines that run at a time on this machine's engines, and at the upstreams of each model; fewer beside interactive requests there",
          1,
        ),
        maxActivePerAccount: count(100, 'Batches of an account that have not ended; more are refused. 0: no limit'),
        discountPercent: Type.Integer({
          minimum: 0,
          maximum: 100,
          default: 0,
          description: 'Taken off the price of batch lines',
        }),
        limitFactor: count(10, 'Limits of batch lines as a multiple of the interactive ones, counted separately', 1),
      },
      'Batches',
    ),
  },
  { additionalProperties: false },
);

export type Config = Static<typeof ConfigSchema>;
