/** What the questions of `baobab init` ask for. */
export interface Answers {
  port: number;
  /** Slug of the chat model to load at start. */
  model: string;
  /** A certificate and its key. Undefined: a proxy in front ends HTTPS. */
  tls: { cert: string; key: string } | undefined;
  /** `https://ai.example.org` */
  publicUrl: string | undefined;
  region: string;
  blobs: string;
  /** The path of a secret file. */
  secret(name: string): string;
}

export interface SecretFile {
  name: string;
  /** Undefined: a random key. */
  example?: string;
}

export interface Template {
  summary: string;
  /** What it asks for, besides the port. */
  asks: readonly ('model' | 'tls' | 'publicUrl' | 'region' | 'blobs')[];
  /** Files beside the settings, for people who back those up or commit them. */
  secrets: readonly SecretFile[];
  write(answers: Answers): string;
}

const FIRST_KEY: SecretFile = { name: 'first-key' };

const EVERY_SETTING = "# 'npx baobab config --settings' lists every setting, 'npx baobab config' shows those in use.";

const quoted = (text: string): string => JSON.stringify(text);

const reachedAt = (
  url: string | undefined,
): string => `# Where people reach it. With https, the cookie of the console is Secure whatever a proxy says.
${url === undefined ? '# public_url: https://ai.example.org' : `public_url: ${quoted(url)}`}
`;

const behindProxy = (
  port: number,
): string => `# A proxy on this machine ends HTTPS and is the only one that can connect. On another machine: 0.0.0.0.
host: 127.0.0.1
port: ${port}

http:
  # Addresses of the proxy. What it says of a client's address in X-Forwarded-For is believed.
  trusted_proxies: [127.0.0.1]
`;

const withCertificate = (
  port: number,
  { cert, key }: NonNullable<Answers['tls']>,
): string => `# Everyone who reaches this machine can connect.
host: 0.0.0.0
port: ${port}

# HTTPS. The files are read again when they change.
tls:
  # The certificate chain, PEM.
  cert: ${quoted(cert)}
  # Its private key, PEM.
  key: ${quoted(key)}
`;

export const TEMPLATES: Readonly<Record<'laptop' | 'server' | 'cluster', Template>> = {
  laptop: {
    summary: 'this computer, for one person',
    asks: ['model'],
    secrets: [],
    write: ({ port, model }) => `# Baobab on this computer, for one person.
${EVERY_SETTING}

# Only programs on this computer can connect.
host: 127.0.0.1
port: ${port}

models:
  # Loaded at start, so that the first answer does not wait. Its weights are fetched once.
  warm: [${quoted(model)}]
  # Megabytes for models. To make room, the one that was used least recently is unloaded.
  memory_budget_mb: 2048
  # After this time without a request a model gives its memory back. Any request loads it again.
  idle_unload_seconds: 600
`,
  },
  server: {
    summary: 'one server, for a team',
    asks: ['tls', 'publicUrl', 'model'],
    secrets: [FIRST_KEY],
    write: ({
      port,
      tls,
      publicUrl,
      model,
      secret,
    }) => `# Baobab on one server, for a team. Accounts, keys and bills are in SQLite in data_dir.
${EVERY_SETTING}

${tls === undefined ? behindProxy(port) : withCertificate(port, tls)}
${reachedAt(publicUrl)}
# The first key, which may do everything: it makes the others. Used once, while the store is empty.
first_key_file: ${quoted(secret(FIRST_KEY.name))}

models:
  # Loaded at start, so that the first answer does not wait. Its weights are fetched once.
  warm: [${quoted(model)}]
  # Keep idle models loaded.
  idle_unload_seconds: 0

# What each key may do with each model, where neither the key nor its account says otherwise.
limits:
  # Requests and tokens a minute.
  chat: { rpm: 60, tpm: 100000 }
  embedding: { rpm: 600, tpm: 1000000 }
  # Requests at a time.
  concurrency: 16
`,
  },
  cluster: {
    summary: 'several servers with PostgreSQL, Redis and S3',
    asks: ['publicUrl', 'region', 'blobs'],
    secrets: [
      { name: 'store', example: 'postgres://baobab:password@postgres.internal:5432/baobab' },
      { name: 'counters', example: 'redis://:password@redis.internal:6379' },
      FIRST_KEY,
    ],
    write: ({
      port,
      publicUrl,
      region,
      blobs,
      secret,
    }) => `# Baobab on several servers: each has this file and the same secrets.
${EVERY_SETTING}

# The load balancer connects from another machine. Keep everyone else away by a firewall.
host: 0.0.0.0
port: ${port}

${reachedAt(publicUrl)}
# The code of the place that these servers are in. Keys can be restricted to regions.
region: ${quoted(region)}

# Secrets are in files of their own, so that this one can be shared. They are read again when they change.
# The address of PostgreSQL: accounts, keys, bills.
store_file: ${quoted(secret('store'))}
# The address of Redis or Valkey: limits and budgets that hold for all servers together.
counters_file: ${quoted(secret('counters'))}
# The first key, which may do everything: it makes the others. Used once, while the store is empty.
first_key_file: ${quoted(secret(FIRST_KEY.name))}

# Files and batches. The credentials are those of AWS: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's role.
blobs: ${quoted(blobs)}
# An S3 server other than AWS.
# blobs_endpoint: http://minio.internal:9000

# What runs when PostgreSQL goes away is answered, and its bill waits in data_dir. Set false where data_dir does not outlive a server.
store_journal: true

http:
  # Addresses of the load balancer. What it says of a client's address in X-Forwarded-For is believed.
  trusted_proxies: [10.0.0.0/8]
  # At a stop, requests are accepted for this long while /readyz says no, so that the load balancer sends them elsewhere.
  drain_delay_ms: 5000

# Engines that the servers share. Without them each server runs models itself.
# upstreams:
#   - { model: qwen/qwen3-8b, url: "http://vllm.internal:8000/v1", kind: vllm }
`,
  },
};

export type Kind = keyof typeof TEMPLATES;
export const KINDS = Object.keys(TEMPLATES) as readonly Kind[];
