/** Some of the fields; undefined ones stay as they are. */
export type Changes<T> = { [Field in keyof T]?: T[Field] | undefined };

/** The fields that are to change. */
export const given = <T extends object>(changes: T): { [Field in keyof T]?: Exclude<T[Field], undefined> } =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>;
  };
