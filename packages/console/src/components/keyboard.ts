const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);

export const paletteKeys = (): string => (mac ? '⌘K' : 'Ctrl K');
export const sendKeys = (): string => (mac ? '⌘↵' : 'Ctrl ↵');
/** Whether they were pressed. */
export const isSendKey = ({ key, isComposing, metaKey, ctrlKey }: KeyboardEvent): boolean =>
  key === 'Enter' && !isComposing && (metaKey || ctrlKey);
/** Phones and tablets have no keys to press at once. */
export const hasKeyboard = (): boolean => !matchMedia('(pointer: coarse)').matches;
