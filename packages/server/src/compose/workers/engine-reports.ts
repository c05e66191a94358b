import type { EngineReport } from '@baobab/core/engine/report.ts';

const sum = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((total, item) => total + value(item), 0);

/** One report for each model, with the requests of all workers. */
export function mergeReports(reports: readonly (readonly EngineReport[])[]): EngineReport[] {
  const byModel = Map.groupBy(reports.flat(), ({ model }) => model);
  return [...byModel.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const upstreams = first.upstreams.map((upstream) => {
      const everywhere = same.flatMap((report) =>
        report.upstreams.filter(({ address }) => address === upstream.address),
      );
      return { ...upstream, inFlight: sum(everywhere, ({ inFlight }) => inFlight) };
    });
    const inFlight = sum(same, (report) => report.inFlight);
    return [{ ...first, inFlight, queueDepth: sum(same, (report) => report.queueDepth), upstreams }];
  });
}
