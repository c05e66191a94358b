import { Settings } from 'typebox/system';

/**
 * TypeBox stops at 8 errors. That is too few to find the one that was meant: one bad text among the 2048 of a request gives an
 * error for each text in every other branch of the union.
 */
Settings.Set({ maxErrors: 10_000 });
