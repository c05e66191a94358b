import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { texts } from '../texts/en/texts.ts';

export interface PageProps {
  title: string;
  about: string;
  action?: ComponentChildren;
  filters?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ title, about, action, filters, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · ${texts.product}`;
  }, [title]);
  return (
    <div class="page">
      <header class="page-head">
        <div>
          <h1 id="page-title" tabIndex={-1}>
            {title}
          </h1>
          <p>{about}</p>
        </div>
        {action && <div class="row">{action}</div>}
      </header>
      {filters && <div class="page-filters">{filters}</div>}
      {children}
    </div>
  );
}

export function Card({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        {aside}
      </div>
      <div class="card-body">{children}</div>
    </section>
  );
}

/** A placeholder in the shape of what comes. */
export function Skeleton({ height }: { height: number }) {
  return (
    <div class="skeleton" style={{ height: `${height}px` }} role="status">
      <span class="hidden-visually">{texts.common.loading}</span>
    </div>
  );
}
