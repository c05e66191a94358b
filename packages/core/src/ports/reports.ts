/** For whom a report is made. */
export interface ReportCaller {
  /** Accounts take turns. */
  accountId: string;
  /** The report ends when it fires. */
  signal?: AbortSignal | undefined;
}
