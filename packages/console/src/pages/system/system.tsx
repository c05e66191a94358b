import { useEffect } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { useParameter } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { useReadiness, useServers, useSystem } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import type { KnownServer, Readiness, SystemReport } from '../../api/types.ts';
import { Details } from '../../components/details.tsx';
import { Badge, Failure, Meter } from '../../components/feedback.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

export default function System() {
  const system = useSystem();
  const readiness = useReadiness();
  // What failed while the server was away is asked for again when it is back.
  const isReady = readiness.data !== undefined && !readiness.isError && readiness.data.status !== 'not ready';
  useEffect(() => {
    if (isReady) void queryClient.refetchQueries({ predicate: ({ state }) => state.status === 'error' });
  }, [isReady]);
  return (
    <Page title={texts.system.title} about={texts.system.about}>
      <div class="stack">
        <Health readiness={readiness.isError ? undefined : readiness.data} isPending={readiness.isPending} />
        {isReady && <Servers />}
        {isReady && system.isError && !system.data && (
          <Failure error={system.error} onRetry={() => void system.refetch()} />
        )}
        {system.isPending && <Skeleton height={420} />}
        {system.data && <Report report={system.data} />}
      </div>
    </Page>
  );
}

const TONES = { ready: 'good', degraded: 'warn', 'not ready': 'bad', gone: 'bad' } as const;

/** Undefined: no answer came. */
function Health({ readiness, isPending }: { readiness: Readiness | undefined; isPending: boolean }) {
  const { system } = texts;
  if (isPending) return null;
  if (readiness === undefined) return <p class="notice notice-bad">{system.unreachable}</p>;
  const { status, reasons, since } = readiness;
  const tone = status === 'not ready' ? 'notice notice-bad' : 'notice';
  return (
    <>
      {reasons.map((reason) => (
        <p key={reason} class={tone}>
          {reason}
          {since && `, ${system.since(exactTime(since))}`}
        </p>
      ))}
    </>
  );
}

function Servers() {
  const now = useNow();
  const { data } = useServers();
  const { system } = texts;
  const columns: Column<KnownServer>[] = [
    { id: 'name', label: system.server, cell: ({ name }) => <code>{name}</code>, card: 'title' },
    {
      id: 'status',
      label: system.status,
      cell: ({ status }) => <Badge tone={TONES[status]}>{system.states[status]}</Badge>,
      card: 'badge',
    },
    {
      id: 'version',
      label: system.version,
      cell: ({ version, commit }) => (commit === null ? version : `${version} (${commit.slice(0, 8)})`),
      wide: true,
    },
    {
      id: 'uptime',
      label: system.uptime,
      cell: ({ started_at: time }) => duration(now - Date.parse(time)),
      wide: true,
    },
    { id: 'seen', label: system.seen, cell: ({ last_seen_at: time }) => exactTime(time), wide: true },
    {
      id: 'clock',
      label: system.clock,
      cell: ({ clock_ahead_ms: ms }) =>
        Math.abs(ms) < 1_000 ? system.clockRight : system.clockAhead(Math.round(ms / 1_000)),
      wide: true,
    },
    {
      id: 'problems',
      label: system.problems,
      cell: ({ problems }) =>
        problems.map(({ reason, since }) => `${reason}, ${system.since(exactTime(since))}`).join('; ') || '–',
      fill: true,
    },
  ];
  if (data === undefined) return null;
  return (
    <Card title={system.servers}>
      <div class="stack-tight">
        <p class="small muted">{system.serversHint}</p>
        <Table label={system.servers} columns={columns} rows={data.data} rowKey={({ id }) => id} />
      </div>
    </Card>
  );
}

function Report({ report }: { report: SystemReport }) {
  const now = useNow();
  const [find, setFind] = useParameter('find');
  const { system } = texts;
  const { runtime, disk } = report;
  const used = runtime.memory_bytes - runtime.free_memory_bytes;
  const settings = flatten(report.configuration).filter(({ name }) => name.includes(find.toLowerCase().trim()));
  return (
    <div class="stack">
      <div class="grid-2">
        <Card
          title={system.health}
          aside={<Badge tone={report.ready ? 'good' : 'bad'}>{report.ready ? system.ready : system.notReady}</Badge>}
        >
          <div class="stack">
            {disk.low && <p class="notice notice-bad">{system.diskLow}</p>}
            <div class="stack-tight">
              <div class="spread small">
                <span class="muted">{system.memory}</span>
                <span class="mono">{`${bytes(used)} ${texts.common.of} ${bytes(runtime.memory_bytes)}`}</span>
              </div>
              <Meter share={used / runtime.memory_bytes} label={system.memory} />
            </div>
            <Details
              rows={[
                [system.process, bytes(runtime.process_memory_bytes)],
                [system.disk, `${bytes(disk.free_bytes)}, ${system.diskReserve(bytes(disk.reserve_bytes))}`],
                [
                  system.uptime,
                  <span key="uptime" title={exactTime(report.started_at)}>
                    {duration(now - Date.parse(report.started_at))}
                  </span>,
                ],
              ]}
            />
          </div>
        </Card>
        <Card title={system.version}>
          <div class="stack">
            <Details
              rows={[
                [texts.product, report.version],
                [system.region, report.region],
                [system.store, report.store.kind],
                [system.node, runtime.node],
                [system.platform, `${runtime.platform} ${runtime.arch}`],
                [system.cpus, full(runtime.cpus)],
              ]}
            />
            <div class="row row-wrap small">
              <a href="/metrics">{system.metrics}</a>
              <a href="/healthz">{system.health}</a>
              <a href="/docs/guide/">{system.guide}</a>
              <a href="/docs">{system.reference}</a>
              <a href="/openapi.json">{system.openapi}</a>
            </div>
            <p class="small muted">{system.logs}</p>
          </div>
        </Card>
      </div>
      <section class="stack-tight">
        <div class="spread row-wrap">
          <div>
            <h2>{system.configuration}</h2>
            <p class="small muted">{system.configurationHint}</p>
          </div>
          <SearchField label={system.find} value={find} onValue={setFind} />
        </div>
        {settings.length === 0 && <p class="muted">{texts.common.noMatch}</p>}
        <div class="settings">
          {grouped(settings).map(({ name, settings: rows }) => (
            <Card key={name} title={name === '' ? system.general : name}>
              <dl class="setting-list">
                {rows.map((setting) => (
                  <div key={setting.name}>
                    <dt>
                      <code>{name === '' ? setting.name : setting.name.slice(name.length).replace(/^\./, '')}</code>
                    </dt>
                    <dd title={setting.name}>
                      <code>{setting.value}</code>
                      {readable(setting) && <span class="small muted"> {readable(setting)}</span>}
                    </dd>
                  </div>
                ))}
              </dl>
            </Card>
          ))}
        </div>
      </section>
    </div>
  );
}

interface Setting {
  /** Dotted path, as in baobab.yaml. */
  name: string;
  value: string;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

interface SettingGroup {
  /** The first part of the paths in it, empty for settings without a group. */
  name: string;
  settings: Setting[];
}

/** Settings by the first part of their paths, those without a group first. */
function grouped(settings: readonly Setting[]): SettingGroup[] {
  const groups = new Map<string, Setting[]>([['', []]]);
  for (const setting of settings) {
    const [first = ''] = setting.name.split(/[.[]/, 1);
    const group = first === setting.name ? '' : first;
    groups.set(group, [...(groups.get(group) ?? []), setting]);
  }
  return [...groups].filter(([, each]) => each.length > 0).map(([name, each]) => ({ name, settings: each }));
}

/** A number of bytes or milliseconds as people read it. */
function readable({ name, value }: Setting): string | undefined {
  const number = Number(value);
  if (!Number.isFinite(number) || number < 1000) return undefined;
  if (name.endsWith('_bytes')) return bytes(number);
  return name.endsWith('_ms') ? duration(number) : undefined;
}

/** One row for each setting. Lists of plain values stay on one line. */
function flatten(value: unknown, path = ''): Setting[] {
  if (isRecord(value)) {
    return Object.entries(value).flatMap(([name, inner]) => flatten(inner, path === '' ? name : `${path}.${name}`));
  }
  if (Array.isArray(value) && value.some((item) => typeof item === 'object')) {
    return value.flatMap((item, index) => flatten(item, `${path}[${index}]`));
  }
  return [{ name: path, value: Array.isArray(value) ? value.join(', ') || '[]' : String(value ?? '–') }];
}
