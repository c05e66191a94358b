import { type DocumentFrame, framedText } from '@baobab/core/domain/document.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Field } from '@baobab/core/errors/fields.ts';
import type { PdfContent, PdfFailure, PdfReadContext, PdfReader } from '@baobab/core/ports/file-readers.ts';
import { createAccountTurns } from '../../admission/account-turns.ts';
import type { InferenceCall } from '../call.ts';
import { type AttachmentLimits, checkAttachments, type InputFiles, readFileStart } from './attachments.ts';
import type { ImageReference } from './images.ts';

/** A file in a prompt whose text must be read first, as the client named it. */
export interface DocumentReference {
  source: { pdfBase64: string } | { fileId: string };
  tag: DocumentFrame['tag'];
  /** Name of an uploaded file; its own by default. */
  name?: string | undefined;
  field: Field;
}

export interface DocumentsService {
  /** The part of the prompt for each document: its text, or an image if the file is one. Throws the error for the client. */
  read(call: InferenceCall, references: readonly DocumentReference[]): Promise<(string | ImageReference)[]>;
}

export interface DocumentsSettings extends AttachmentLimits {
  /** Longest text of all documents of one request together. */
  maxCharacters: number;
}

export interface DocumentsDependencies {
  files: InputFiles;
  reader: PdfReader;
  settings: DocumentsSettings;
}

const PDF_MARK = '%PDF-';
/** Longest UTF-16 character in UTF-8. */
const MAX_CHARACTER_BYTES = 3;
/** Text files that are read for one account at a time. A small request can name megabytes. */
const TEXTS_AT_ONCE = 2;
/** Readers accept some bytes before the mark. */
const PDF_HEAD_BYTES = 1_024;

function refusal(failure: PdfFailure, field: Field): Error {
  switch (failure.reason) {
    case 'damaged':
      return errors.invalidParameter(field, 'The file is damaged or not a PDF: it could not be read.');
    case 'encrypted':
      return errors.unsupportedParameter(field, 'The PDF is locked with a password. Send it without one.');
    case 'no-text':
      return errors.unsupportedParameter(
        field,
        'The PDF has no text, only images or nothing at all. Send its pages as images, or its text.',
      );
    case 'too-many-pages':
      return errors.validationFailed(
        field,
        `The PDF has ${failure.pages} pages; at most ${failure.limit} are accepted. Send fewer of them.`,
      );
    case 'too-long':
      return tooLong(field, failure.limit);
    default:
      return errors.validationFailed(
        field,
        `The PDF could not be read: it needs more ${failure.reason} than a document should.`,
      );
  }
}

const tooLong = (field: Field, limit: number) =>
  errors.validationFailed(
    field,
    `The documents of the request have more than ${limit} characters of text. Send fewer pages.`,
  );

export function createDocuments({ files, reader, settings }: DocumentsDependencies): DocumentsService {
  const { maxCharacters } = settings;
  const textReads = createAccountTurns({ atOnce: TEXTS_AT_ONCE });

  async function plainText(file: StoredFile, field: Field): Promise<string> {
    if (file.bytes > MAX_CHARACTER_BYTES * maxCharacters) throw tooLong(field, maxCharacters);
    try {
      return await textReads.run(file.accountId, async () =>
        new TextDecoder('utf-8', { fatal: true }).decode(await readFileStart(files, file)),
      );
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw errors.unsupportedParameter(field, `The file '${file.id}' is neither a PDF nor text in UTF-8.`);
    }
  }

  return {
    async read(call, references) {
      const { account, key } = call.principal;
      const countBytes = checkAttachments('documents', references, settings);
      const context: PdfReadContext = {
        accountId: account.id,
        keyId: key.id,
        priority: call.priority,
        signal: call.signal,
        keeps: !account.zeroRetention,
      };
      const readPdf = async (pdf: PdfContent, field: Field): Promise<string> => {
        const found = await reader.read(pdf, context);
        if ('failure' in found) throw refusal(found.failure, field);
        return found.text;
      };

      let characters = 0;
      const read: (string | ImageReference)[] = [];
      for (const { source, tag, name, field } of references) {
        let text: string;
        let ownName: string | undefined;
        if ('fileId' in source) {
          const file = await files.get(account.id, source.fileId, field);
          if (file.purpose === 'vision') {
            read.push({ source, field });
            continue;
          }
          if (file.purpose !== 'user_data') {
            throw errors.invalidParameter(
              field,
              `The file '${file.id}' has the purpose '${file.purpose}'; upload documents with 'user_data' and images with 'vision'.`,
            );
          }
          countBytes(file.bytes, field);
          ownName = file.filename;
          const isPdf = (await readFileStart(files, file, PDF_HEAD_BYTES)).includes(PDF_MARK);
          text = isPdf
            ? await readPdf({ sha256: file.sha256, open: () => files.open(file) }, field)
            : await plainText(file, field);
        } else {
          countBytes(Math.floor((source.pdfBase64.length * 3) / 4), field);
          text = await readPdf({ base64: source.pdfBase64 }, field);
        }
        characters += text.length;
        if (characters > maxCharacters) throw tooLong(field, maxCharacters);
        read.push(framedText({ tag, name: name ?? ownName ?? tag }, text));
      }
      return read;
    },
  };
}
