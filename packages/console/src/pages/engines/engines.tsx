import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { useEngines } from '../../api/queries.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
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
      <div class="stack">
        {engines.data && <EngineFigures engines={all} />}
        <Listing
          query={engines}
          rows={rows}
          label={texts.engines.title}
          rowKey={engineName}
          selected={open && engineName(open)}
          onOpen={(engine) => changeSearch({ engine: engineName(engine) })}
          initialSort="status"
          columns={engineColumns(all)}
          uncounted
          empty={
            <Empty icon="engines" title={texts.engines.emptyTitle}>
              <p>{texts.engines.emptyText}</p>
            </Empty>
          }
        />
      </div>
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
