import { type TSchema, Type } from 'typebox';

/** Official clients send null for fields that are not set. */
export const optional = <T extends TSchema>(schema: T, description?: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], description === undefined ? {} : { description }));
