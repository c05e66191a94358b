import { errors } from '../errors/errors.ts';
import { fieldText } from '../errors/fields.ts';

const METADATA_LIMITS = { pairs: 16, keyCharacters: 64, valueCharacters: 512 };

export function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  const { pairs, keyCharacters, valueCharacters } = METADATA_LIMITS;
  const entries = Object.entries(metadata);
  if (entries.length > pairs) {
    throw errors.validationFailed(
      ['metadata'],
      fieldText`${['metadata']} has ${entries.length} pairs; at most ${pairs} are accepted.`,
    );
  }
  for (const [key, value] of entries) {
    if (!key.isWellFormed() || !value.isWellFormed()) {
      throw errors.invalidParameter(
        ['metadata'],
        fieldText`${['metadata']} must not contain halves of surrogate pairs.`,
      );
    }
    if (key.length > keyCharacters || value.length > valueCharacters) {
      throw errors.invalidParameter(
        ['metadata'],
        fieldText`Keys of ${['metadata']} may have ${keyCharacters} characters and values ${valueCharacters}.`,
      );
    }
  }
}
