import { type EngineSpec, type EngineTask, type Modality, TASKS_OF_MODALITY } from '@baobab/core/domain/model.ts';
import type { Driver } from '@baobab/core/engine/driver.ts';
import { Type } from 'typebox';
import { problemsOf } from '../validation/problems.ts';

const quoted = (names: readonly string[]) => names.map((name) => JSON.stringify(name)).join(', ');

export interface EngineChecks {
  drivers: readonly Driver[];
  locate(path: readonly string[]): string;
}

/** Checks `engine` of a version with the schema of its own driver. `at` is its path in the file. */
export function engineProblems(engine: object, at: readonly string[], { drivers, locate }: EngineChecks): string[] {
  const { driver: name, task } = engine as { driver?: unknown; task?: unknown };
  const problem = (field: string, text: string) => [`${locate([...at, field])}: ${[...at, field].join('.')}: ${text}`];
  const driver = drivers.find((each) => each.name === name);
  if (driver === undefined) return problem('driver', `must be one of ${quoted(drivers.map((each) => each.name))}`);
  if (driver.isAbsent) return [];
  const fields = Object.entries(driver.tasks).find(([each]) => each === task)?.[1];
  if (fields === undefined) {
    const tasks = quoted(Object.keys(driver.tasks));
    return problem('task', `the driver ${driver.name} has no such task; it has ${tasks}`);
  }
  const schema = Type.Object(
    { driver: Type.String(), task: Type.String(), ...fields },
    { additionalProperties: false },
  );
  return problemsOf(schema, engine, locate, at);
}

export function taskProblem(task: string, modality: Modality): string | undefined {
  const tasks: readonly string[] = TASKS_OF_MODALITY[modality];
  return tasks.includes(task) ? undefined : `a model of the modality ${modality} needs the task ${tasks.join(' or ')}`;
}

/** After `engineProblems` found none. */
export function toEngineSpec({ driver, task, ...options }: { driver: string; task: string }): EngineSpec {
  return { driver, task: task as EngineTask, options };
}
