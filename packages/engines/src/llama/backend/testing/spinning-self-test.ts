import { endWithParent } from '@baobab/core/runtime/end-with-parent.ts';

/** Stuck in native code, so that its event loop notices nothing. */
endWithParent(Number(process.argv[4]));
for (;;);
