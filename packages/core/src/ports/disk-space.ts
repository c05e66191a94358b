export interface DiskSpaceStatus {
  freeBytes: number;
  /** Kept free: with less, nothing large is stored. */
  reserveBytes: number;
  isLow: boolean;
}

/** The disk that holds the data. Cheap to ask often. */
export interface DiskSpace {
  status(): Promise<DiskSpaceStatus>;
}
