import type { Command } from './command.ts';

/** Commands are loaded on demand, because most need only a part of what the server needs. */
export interface CommandEntry {
  summary: string;
  load(): Promise<Command>;
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: {
    summary: 'Run the service',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
  init: {
    summary: 'Write the settings of a laptop, a server or a cluster',
    load: async () => (await import('./init/init.ts')).initCommand,
  },
  models: {
    summary: 'List models, fetch and check weights, see what is loaded, deprecate',
    load: async () => (await import('./models/models.ts')).modelsCommand,
  },
  gpu: {
    summary: 'Build and test llama.cpp for the GPUs of this machine',
    load: async () => (await import('./gpu.ts')).gpuCommand,
  },
  engines: {
    summary: 'Build other engines, such as llama-server, that the server starts',
    load: async () => (await import('./engines.ts')).enginesCommand,
  },
  keys: {
    summary: 'Create, list, update, revoke and rotate API keys',
    load: async () => (await import('./keys.ts')).keysCommand,
  },
  accounts: {
    summary: 'Create, list, update, suspend, resume and delete accounts',
    load: async () => (await import('./accounts.ts')).accountsCommand,
  },
  usage: {
    summary: 'Show tokens and spend of one account or all',
    load: async () => (await import('./usage.ts')).usageCommand,
  },
  audit: {
    summary: 'Show who changed accounts, keys and models',
    load: async () => (await import('./audit.ts')).auditCommand,
  },
  batches: {
    summary: 'List, show, watch (show --watch) and cancel batches',
    load: async () => (await import('./batches.ts')).batchesCommand,
  },
  status: {
    summary: 'Show every server: health, what is away and since when',
    load: async () => (await import('./status.ts')).statusCommand,
  },
  backup: {
    summary: 'Copy the data directory, also while the server runs',
    load: async () => (await import('./backup.ts')).backupCommand,
  },
  restore: {
    summary: 'Fill an empty data directory from a backup',
    load: async () => (await import('./backup.ts')).restoreCommand,
  },
  migrate: {
    summary: 'Copy a data directory into PostgreSQL, to run several servers',
    load: async () => (await import('./migrate.ts')).migrateCommand,
  },
  journal: {
    summary: 'Move the ledger rows of a lost server to PostgreSQL',
    load: async () => (await import('./journal.ts')).journalCommand,
  },
  try: {
    summary: 'Chat with a model of a running server in the terminal',
    load: async () => (await import('./try/try.ts')).tryCommand,
  },
  launch: {
    summary: 'Start Codex or Claude Code with this server, or print the settings of a client',
    load: async () => (await import('./launch/launch.ts')).launchCommand,
  },
  'verify-release': {
    summary: 'Check the files of a release against its signature',
    load: async () => (await import('./verify-release.ts')).verifyReleaseCommand,
  },
  config: {
    summary: 'Show the effective configuration, secrets masked',
    load: async () => (await import('./config.ts')).configCommand,
  },
};
