import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';

interface DialogProps {
  class: string;
  labelledBy?: string;
  label?: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** The browser's own modal dialog: it traps focus, closes with Escape and gives focus back. */
export function Dialog({ class: name, labelledBy, label, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    dialog.showModal();
    // The browser would take the first button. A form starts at its first field, everything else at its title.
    const field = dialog.querySelector<HTMLElement>('form input, [role=combobox], .modal-body input');
    (field ?? dialog.querySelector<HTMLElement>('h2'))?.focus();
    return () => dialog.close();
  }, []);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    // A click on the backdrop is a click on the dialog itself, outside of its box.
    const onPress = (event: MouseEvent) => {
      if (event.target !== dialog) return;
      const { left, right, top, bottom } = dialog.getBoundingClientRect();
      const inside = event.clientX >= left && event.clientX <= right && event.clientY >= top && event.clientY <= bottom;
      if (!inside) close.current();
    };
    const onCancel = (event: Event) => {
      event.preventDefault();
      close.current();
    };
    dialog.addEventListener('mousedown', onPress);
    dialog.addEventListener('cancel', onCancel);
    return () => {
      dialog.removeEventListener('mousedown', onPress);
      dialog.removeEventListener('cancel', onCancel);
    };
  }, []);
  return (
    <dialog ref={element} class={name} aria-labelledby={labelledBy} aria-label={label}>
      {children}
    </dialog>
  );
}

export interface SheetProps {
  title: string;
  about?: ComponentChildren;
  foot?: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
}

/** A panel at the right edge for one object or one form. */
export function Sheet({ title, about, foot, onClose, children }: SheetProps) {
  const id = useId();
  return (
    <Dialog class="sheet" labelledBy={id} onClose={onClose}>
      <header class="sheet-head">
        <div class="grow">
          <h2 id={id} tabIndex={-1}>
            {title}
          </h2>
          {about && <div class="muted small">{about}</div>}
        </div>
        <Button tone="quiet" icon="close" label={texts.common.close} onClick={onClose} />
      </header>
      <div class="sheet-body">{children}</div>
      {foot && <footer class="sheet-foot">{foot}</footer>}
    </Dialog>
  );
}

export interface ModalProps {
  title: string;
  foot: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
}

export function Modal({ title, foot, onClose, children }: ModalProps) {
  const id = useId();
  return (
    <Dialog class="modal" labelledBy={id} onClose={onClose}>
      <div class="modal-body">
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        {children}
        <div class="modal-foot">{foot}</div>
      </div>
    </Dialog>
  );
}
