import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { useEngines } from '../../api/queries.ts';
import { optionsOf, Segments } from '../../components/controls.tsx';
import { Empty, Failure } from '../../components/feedback.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { Table, TableSkeleton } from '../../components/table.tsx';
import { texts } from '../../texts/en/texts.ts';
import { EngineActions } from './engine-actions.tsx';
import { engineColumns } from './engine-columns.tsx';
import { EngineFacts, engineName, isBroken } from './engine-facts.tsx';
import { EngineFigures } from './engine-figures.tsx';
import { LiveEngines } from './live-engines.tsx';

export default function Engines() {
  const engines = useEngines();
  const { search } = usePlace();
  const [show, setShow] = useParameter('show', 'all');
  const all = engines.data?.data ?? [];
  const rows = all.filter(
    (engine) =>
      show === 'all' || (show === 'running' ? engine.processes > 0 || engine.status === 'loading' : isBroken(engine)),
  );
  const open = all.find((engine) => engineName(engine) === search.get('engine'));
  return (
    <Page
      title={texts.engines.title}
      about={texts.engines.about}
      filters={
        <Segments
          label={texts.engines.columns.status}
          options={optionsOf(texts.engines.show)}
          value={show}
          onValue={setShow}
        />
      }
    >
      <LiveEngines />
      {engines.isError && !engines.data && <Failure error={engines.error} onRetry={() => void engines.refetch()} />}
      {engines.isPending && <TableSkeleton />}
      {engines.data && (
        <div class="stack">
          <EngineFigures engines={all} />
          {rows.length === 0 && (
            <Empty icon="engines" title={texts.engines.emptyTitle}>
              <p>{texts.engines.emptyText}</p>
            </Empty>
          )}
          {rows.length > 0 && (
            <Table
              label={texts.engines.title}
              rows={rows}
              rowKey={engineName}
              selected={open && engineName(open)}
              onOpen={(engine) => changeSearch({ engine: engineName(engine) })}
              initialSort="status"
              columns={engineColumns(all)}
            />
          )}
        </div>
      )}
      {open && (
        <Sheet title={engineName(open)} onClose={() => changeSearch({ engine: undefined })}>
          <div class="stack">
            <EngineFacts engine={open} />
            <EngineActions engine={open} />
          </div>
        </Sheet>
      )}
    </Page>
  );
}
