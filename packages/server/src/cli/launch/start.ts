import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { constants as system } from 'node:os';
import { delimiter, join } from 'node:path';
import { type ApiAccess, accessFrom, callApi, type ListedModel, listChatModels, modelNamed } from '../api-client.ts';
import { type CommandContext, CommandFailed } from '../command.ts';
import { showWaiting } from '../try/waiting.ts';
import { issueClientKey } from './key.ts';
import { type Launch, recipeValues } from './recipe.ts';

export const DEFAULT_BUDGET_USD = 10;
/** Instructions, tools and a conversation that is worth having. */
const LEAST_CONTEXT = 2;
/** People wait this long for the first word of an answer, and not much longer. */
const SLOW_SECONDS = 10;
const PROBE_WORDS = 300;

export interface ClientStart {
  id: string;
  name: string;
  launch: Launch;
  address: string;
  /** Undefined: the first that fits. */
  model: string | undefined;
  budgetNanoUsd: number | undefined;
  /** Arguments for the client. */
  passed: readonly string[];
}

function isInstalled(program: string, path = ''): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Why a model cannot be one of an agent. */
function obstacle({ capabilities, context_length: context = 0 }: ListedModel, launch: Launch): string | undefined {
  if (capabilities?.tools === false) return 'cannot call tools';
  if (context >= LEAST_CONTEXT * launch.instructionTokens) return undefined;
  return `has a context of ${context} tokens, and the instructions alone take about ${launch.instructionTokens}`;
}

function chooseModel(models: readonly ListedModel[], { name, launch, model }: ClientStart): ListedModel {
  if (model !== undefined) {
    const found = modelNamed(models, model);
    if (found === undefined)
      throw new CommandFailed(`there is no chat model '${model}' for this key; 'baobab try' and /model show them`);
    const problem = obstacle(found, launch);
    if (problem !== undefined) throw new CommandFailed(`${model} is no model for ${name}: it ${problem}`);
    return found;
  }
  const fitting = models.find((each) => obstacle(each, launch) === undefined);
  if (fitting !== undefined) return fitting;
  const reasons = models.map((each) => `  ${each.id} ${obstacle(each, launch)}`).join('\n');
  throw new CommandFailed(`no chat model here is one for ${name}:\n${reasons}\n'baobab models add' adds others`);
}

/** Tokens a second that a loaded model reads. Two short requests, which are billed. */
async function readingRate(access: ApiAccess, model: ListedModel, stopWaiting: () => void): Promise<number> {
  const ask = async (content: string) => {
    const body = { model: model.id, messages: [{ role: 'user', content }], max_tokens: 1 };
    const beganAt = performance.now();
    const answer = await (await callApi(access, 'chat/completions', { body })).json();
    const { usage } = answer as {
      usage: { prompt_tokens: number; prompt_tokens_details?: { cached_tokens?: number } };
    };
    const read = usage.prompt_tokens - (usage.prompt_tokens_details?.cached_tokens ?? 0);
    return (1_000 * read) / (performance.now() - beganAt);
  };
  try {
    await ask('Hello');
    // No cache knows how it begins.
    return await ask(`${randomUUID()}\n${'const answer = read(question);\n'.repeat(PROBE_WORDS / 6)}`);
  } finally {
    stopWaiting();
  }
}

function speedText({ id }: ListedModel, { name, launch }: ClientStart, rate: number): string {
  const seconds = Math.ceil(launch.instructionTokens / rate);
  const text = `${id} reads about ${Math.round(rate)} tokens/s here: ${seconds} s for the instructions of ${name}, before its first word`;
  return seconds <= SLOW_SECONDS
    ? text
    : `${text}. That is too slow to work with: --model takes another one, such as one of a GPU server ('baobab models add')`;
}

/** The exit code of the client. Signals that come to this process alone are passed on; those of a terminal reach both. */
async function runProgram(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const child = spawn(program, args, { env, stdio: 'inherit' });
  const passOn = (signal: NodeJS.Signals) => void child.kill(signal);
  const stay = () => {};
  process.on('SIGINT', stay).on('SIGTERM', passOn).on('SIGHUP', passOn);
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    return code ?? 128 + (signal === null ? 0 : system.signals[signal]);
  } finally {
    process.off('SIGINT', stay).off('SIGTERM', passOn).off('SIGHUP', passOn);
  }
}

/** Starts a client with a model that fits and a key of its own. */
export async function startClient(context: CommandContext, start: ClientStart): Promise<void> {
  const { env, terminal, warn, exitWith } = context;
  const { id, name, launch, address, budgetNanoUsd, passed } = start;
  if (!isInstalled(launch.program, env.PATH)) {
    throw new CommandFailed(`${name} is not installed; run '${launch.install}'`);
  }
  const access = accessFrom(env, address);
  const model = chooseModel(await listChatModels(access), start);
  const stopWaiting = terminal === undefined ? () => {} : showWaiting(terminal, access, model);
  warn?.(speedText(model, start, await readingRate(access, model, stopWaiting)));
  const keyName = `launch-${id}`;
  const key = await issueClientKey(access, { name: keyName, budgetNanoUsd, defaultBudgetUsd: DEFAULT_BUDGET_USD });
  if (key.budgetUsd === undefined) {
    if (budgetNanoUsd !== undefined)
      throw new CommandFailed('your key may not make keys, so there is none with a budget; leave out --budget');
    warn?.(`your key may not make keys: ${name} uses it`);
  } else {
    const budget = key.budgetUsd === null ? 'no budget' : `a budget of $${key.budgetUsd} a month`;
    warn?.(`its key ${keyName} has ${budget}; --budget changes it`);
  }
  const values = {
    address,
    ...recipeValues({
      slug: model.id,
      contextLength: model.context_length ?? 0,
      maxOutputTokens: model.max_output_tokens ?? null,
    }),
  };
  const variables = { ...env, ...launch.env({ ...values, key: key.secret }) };
  exitWith?.(await runProgram(launch.program, [...launch.args(values), ...passed], variables));
}
