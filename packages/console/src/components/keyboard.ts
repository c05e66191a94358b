const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);

export const paletteKeys = (): string => (mac ? '⌘K' : 'Ctrl K');
export const sendKeys = (): string => (mac ? '⌘↵' : 'Ctrl ↵');
/** Phones and tablets have no keys to press at once. */
export const hasKeyboard = (): boolean => !matchMedia('(pointer: coarse)').matches;
