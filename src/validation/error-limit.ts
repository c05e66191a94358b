import { Settings } from 'typebox/system';

/** TypeBox stops at 8 errors; operators want to see every mistake in their files at once. */
Settings.Set({ maxErrors: 1_000 });
