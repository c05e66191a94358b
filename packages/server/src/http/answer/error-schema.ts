import { type ErrorCode, KINDS } from '@baobab/core/errors/kinds.ts';
import { Type } from 'typebox';

export const ErrorResponse = Type.Object(
  {
    error: Type.Object({
      message: Type.String(),
      type: Type.String(),
      code: Type.Enum(Object.keys(KINDS) as ErrorCode[]),
      param: Type.Union([Type.String(), Type.Null()]),
    }),
  },
  { $id: 'Error', description: 'The shape of every error' },
);

/** The documented errors of a route behind authentication. */
export const commonErrors = {
  400: ErrorResponse,
  401: ErrorResponse,
  403: ErrorResponse,
  404: ErrorResponse,
  429: ErrorResponse,
  500: ErrorResponse,
  503: ErrorResponse,
};

export const inferenceErrors = {
  ...commonErrors,
  409: ErrorResponse,
  413: ErrorResponse,
  422: ErrorResponse,
  504: ErrorResponse,
};
