import { readFile } from 'node:fs/promises';
import type { EngineRights, LoadSpec } from '@baobab/core/engine/driver.ts';
import type { ComputeDevice } from '@baobab/core/engine/engine.ts';
import { createFrameChannel } from '@baobab/core/engine/wire/frames.ts';
import {
  type CapabilityName,
  type FromEngine,
  fromWireError,
  type ToEngine,
} from '@baobab/core/engine/wire/messages.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { describeExit, permissionFlags, spawnChild } from './child-process.ts';
import { coreTimes, createHangMonitor } from './hang-monitor.ts';
import { createEngineMethods, EngineCrash, type EngineMethods, PendingCalls } from './pending-calls.ts';

export interface EngineProcessOptions {
  spec: LoadSpec;
  /** The driver's module, which the process imports. */
  module: URL;
  /** Rights of the JavaScript in it; undefined: unrestricted. */
  rights: EngineRights | undefined;
  /** Variables of the server; only harmless ones are passed on. */
  environment: Readonly<Record<string, string | undefined>>;
  loadTimeoutMs: number;
  hangTimeoutMs: number;
  logger: Logger;
}

export interface LoadedFacts {
  capabilities: readonly CapabilityName[];
  loadMs: number;
  device: ComputeDevice | undefined;
}

/** One engine process, seen from the server. */
export interface EngineProcess extends EngineMethods {
  readonly pid: number | undefined;
  /** Rejects when the model cannot be loaded; the process is gone then or about to end. */
  readonly ready: Promise<LoadedFacts>;
  /** Resolves with the reason when the process is gone. */
  readonly exited: Promise<string>;
  /** As the process last reported it. */
  residentBytes(): number;
  /** Frees the model and ends the process; by force after `graceMs`. */
  close(graceMs: number): Promise<void>;
  kill(reason: string): void;
}

const MAX_HEARTBEAT_MS = 5_000;
/** Frames that the process wrote just before it died may still be in the pipe. */
const FINAL_FRAMES_GRACE_MS = 1_000;

export function startEngineProcess(options: EngineProcessOptions): EngineProcess {
  const { spec, logger, loadTimeoutMs, hangTimeoutMs } = options;
  const model = `${spec.slug}@${spec.version}`;
  const heartbeatMs = Math.min(MAX_HEARTBEAT_MS, Math.ceil(hangTimeoutMs / 4));
  const ready = Promise.withResolvers<LoadedFacts>();
  const exited = Promise.withResolvers<string>();
  ready.promise.catch(() => {});
  let residentBytes = 0;
  let killReason: string | undefined;
  let finished = false;
  let hung = false;
  let graceTimer: NodeJS.Timeout | undefined;

  const { module, rights, environment } = options;
  const libraryPath = environment.LD_LIBRARY_PATH;
  const { directory } = spec;
  const flags = rights === undefined ? [] : permissionFlags({ module, directory, rights, libraryPath });
  const { child, pipe } = spawnChild({ flags, restricted: flags.length > 0, environment, logger, model });
  const facts = { model, pid: child.pid };
  const channel = createFrameChannel<ToEngine, FromEngine>(pipe, {
    bodyBuffer: (message) =>
      message.type === 'result' ? calls.get(message.id)?.bufferFor?.(message.value) : undefined,
    onFrame: receive,
    onClose(error) {
      if (error !== undefined) logger.warn({ ...facts, err: error }, 'the pipe to an engine process broke');
      if (child.exitCode !== null || child.signalCode !== null) finish();
      else graceTimer = setTimeout(() => kill('its pipe closed'), FINAL_FRAMES_GRACE_MS);
    },
  });
  const monitor = createHangMonitor({
    heartbeatMs,
    hangTimeoutMs,
    busy: () => calls.isBusy(),
    coreTimes: () => (child.pid === undefined ? undefined : coreTimes(child.pid)),
    onTick(starved) {
      if (!starved && calls.ageOfCancels() * heartbeatMs >= hangTimeoutMs) kill('it did not stop a cancelled request');
    },
    onHang(reason) {
      hung = true;
      kill(reason);
    },
  });
  const calls = new PendingCalls(channel, monitor);
  const loadTimer = setTimeout(() => kill(`it did not load within ${loadTimeoutMs / 1000} s`), loadTimeoutMs);

  child.on('error', (error) => {
    logger.error({ ...facts, err: error }, 'failed to start an engine process');
    killReason ??= 'it could not be started';
    finish();
  });
  child.on('exit', () => {
    clearTimeout(graceTimer);
    if (pipe.destroyed) finish();
    else graceTimer = setTimeout(finish, FINAL_FRAMES_GRACE_MS);
  });

  channel.write({ type: 'load', spec, module: module.href, heartbeatMs });

  function kill(reason: string): void {
    killReason ??= reason;
    child.kill('SIGKILL');
  }

  function finish(): void {
    if (finished) return;
    finished = true;
    const reason = killReason ?? describeExit(child);
    clearTimeout(loadTimer);
    clearTimeout(graceTimer);
    monitor.stop();
    channel.close();
    ready.reject(new EngineCrash(reason));
    calls.failAll(reason, { hung });
    exited.resolve(reason);
  }

  function receive(message: FromEngine, body: Uint8Array): void {
    switch (message.type) {
      case 'ready':
        clearTimeout(loadTimer);
        ready.resolve({ capabilities: message.capabilities, loadMs: message.loadMs, device: message.device });
        return;
      case 'failed':
        ready.reject(fromWireError(message.error));
        kill('it could not load the model');
        return;
      case 'heartbeat':
        residentBytes = message.residentBytes;
        monitor.heartbeat(message.cpuMs);
        return;
      case 'event':
        monitor.progress();
        calls.get(message.id)?.stream?.onEvent(message.event, message.usage);
        return;
      default:
        monitor.progress();
        calls.settle(message, body);
    }
  }

  return {
    pid: child.pid,
    ready: ready.promise,
    exited: exited.promise,
    residentBytes: () => residentBytes,
    ...createEngineMethods(calls),
    async close(graceMs) {
      killReason ??= 'it was unloaded';
      channel.write({ type: 'close' });
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await exited.promise;
      clearTimeout(timer);
    },
    kill,
  };
}

/** Real memory of some processes: measured where the kernel reports it, otherwise as the processes themselves reported it. */
export async function totalBytes(processes: readonly EngineProcess[]): Promise<number> {
  const sizes = await Promise.all(
    processes.map(async (engine) => {
      const measured = engine.pid === undefined ? undefined : await proportionalBytes(engine.pid);
      return measured ?? engine.residentBytes();
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Pages that several processes map (the runtime, weights read by mmap) count once among them. Includes the processes that it has started. */
async function proportionalBytes(pid: number): Promise<number | undefined> {
  try {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    const sizes = await Promise.all(children.split(' ').filter(Boolean).map(Number).map(proportionalBytes));
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kilobytes = /^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1];
    if (kilobytes === undefined) return undefined;
    return sizes.reduce<number>((sum, size) => sum + (size ?? 0), Number(kilobytes) * 1024);
  } catch {
    return undefined;
  }
}
