import { createId } from '@baobab/core/runtime/ids.ts';
import type { GenerationEndpoint } from '../../generation/endpoint.ts';
import { MESSAGE_FIELDS, messageCommand } from './command.ts';
import { CreateMessage } from './schema.ts';
import { createMessageWriter, errorToWire, type WireMessage } from './writer.ts';

export const messageEndpoint: GenerationEndpoint<typeof CreateMessage, WireMessage> = {
  path: '/v1/messages',
  schema: CreateMessage,
  fieldNames: MESSAGE_FIELDS,
  command: messageCommand,
  writer: (body, _command, clock) => createMessageWriter(createId('msg', clock.now()), body),
  errorBody: errorToWire,
};
