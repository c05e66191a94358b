import { homedir } from 'node:os';
import { join } from 'node:path';
import type { UpstreamKind } from '../../../packages/server/src/upstreams/dialects/dialects.ts';
import type { RunningProcess } from './process.ts';

export type Task = 'chat' | 'embedding' | 'rerank';

/** One model that an engine can serve. */
export interface ServedModel {
  task: Task;
  /** What the engine calls it. */
  name: string;
  contextLength: number;
  dimensions?: number;
  /** Takes images. Nothing else is tried with it. */
  vision?: boolean;
  /** Not made for its task: the engine has to refuse. Nothing else is tried with it. */
  unfit?: boolean;
  /** Whether its chat template knows tools. `only`: nothing but tools is tried with it. */
  tools: 'yes' | 'no' | 'only';
  /** Real weights, whose answers mean something. */
  hasSense: boolean;
  /** Starts the engine on this port of 127.0.0.1 with this model. */
  start(port: number): RunningProcess;
}

export interface PreparedEngine {
  version: string;
  models: readonly ServedModel[];
}

/** An engine that the suite can try. `prepare` fetches it, or throws with the reason why this machine cannot have it. */
export interface EngineUnderTest {
  name: string;
  kind: UpstreamKind;
  /** Answers with success when the engine is ready. */
  healthPath: string;
  prepare(): Promise<PreparedEngine>;
}

/** Virtual environments, programs and models of the suite. They stay for the next run. */
export const CACHE =
  process.env.BAOBAB_ENGINES_DIR ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'baobab-engines');
