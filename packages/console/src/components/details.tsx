import type { ComponentChildren } from 'preact';

/** A label with its value. What is false is left out. */
export type Detail = readonly [label: string, value: ComponentChildren] | false;

/** Facts of one object, labels on the left. */
export function Details({ rows }: { rows: readonly Detail[] }) {
  return (
    <dl class="details numbers">
      {rows.map(
        (row) =>
          row && (
            <div key={row[0]} class="details-row">
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
