/** Outlines on a grid of 24. */
const PATHS = {
  overview: 'M4 4h7v7H4zM13 4h7v4h-7zM13 11h7v9h-7zM4 14h7v6H4z',
  usage: 'M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6',
  requests: 'M4 6h16M4 12h16M4 18h10',
  models: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.500l8 4.500 8-4.500M12 12v9',
  playground: 'M5 4l14 8-14 8z',
  keys: 'M15 14a5 5 0 1 0 0-10 5 5 0 0 0 0 10zM11.500 12.500L4 20M6.500 17.500L9 20',
  files: 'M6 3h8l4 4v14H6zM14 3v4h4',
  batches: 'M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4',
  audit: 'M6 3h12v18H6zM9 8h6M9 12h6M9 16h3',
  accounts:
    'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20c.5-4 3-6 6.500-6s6 2 6.500 6M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14.500c2 .8 3.200 2.600 3.500 5.500',
  engines: 'M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4',
  system: 'M4 5h16v6H4zM4 13h16v6H4zM7.500 8h.01M7.500 16h.01M11 8h6M11 16h6',
  reference: 'M5 4h6a2 2 0 0 1 2 2v14a2 2 0 0 0-2-1H5zM19 4h-4a2 2 0 0 0-2 2M13 20a2 2 0 0 1 2-1h4V4',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 12.500l4.500 4.500L19 7.500',
  plus: 'M12 5v14M5 12h14',
  menu: 'M4 7h16M4 12h16M4 17h16',
  up: 'M6 14l6-6 6 6',
  down: 'M6 10l6 6 6-6',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  panel: 'M4 5h16v14H4zM9 5v14',
  theme: 'M12 3a9 9 0 1 0 9 9c-3 2-9 1-9-9z',
  out: 'M14 4h6v16h-6M10 8l-4 4 4 4M6 12h10',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  stop: 'M7 7h10v10H7z',
  send: 'M12 19V5M6 11l6-6 6 6',
  mic: 'M12 15a3 3 0 0 0 3-3V7a3 3 0 0 0-6 0v5a3 3 0 0 0 3 3zM6 11.500c0 3.600 2.700 6 6 6s6-2.400 6-6M12 17.500V21',
  pause: 'M8 5v14M16 5v14',
  warning: 'M12 4l9 16H3zM12 10v4M12 17h.01',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  rotate: 'M20 12a8 8 0 1 1-2.300-5.700L20 8.600M20 4v4.600h-4.600',
  edit: 'M5 19h3l10-10-3-3L5 16zM13 8l3 3',
  compare: 'M4 5h7v14H4zM13 5h7v14h-7z',
  link: 'M10 14l4-4M8 11l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 13l2-2a3.500 3.500 0 0 0-5-5l-2 2',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The outline of a baobab: a wide trunk under a flat crown. */
export function Mark() {
  return (
    <svg
      class="mark"
      viewBox="0 0 24 24"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
    >
      <path d="M8 21c1-3 .8-6-.2-8.500L4.500 10M16 21c-1-3-.8-6 .2-8.500l3.300-2.500M6 21h12M7.800 12.500 9.800 10M16.200 12.500 14.200 10M12 13.500V10" />
      <path d="M3.200 9.800C1.500 7.600 3 5.200 5.200 5.300 6.200 3.200 9 2.700 12 4c3-1.300 5.800-.8 6.800 1.300 2.200-.1 3.700 2.300 2 4.500-1.600.9-3.600.9-5 .1-1.200.8-2.600.8-3.800.1-1.200.7-2.600.7-3.800-.1-1.400.8-3.400.8-5-.1z" />
    </svg>
  );
}
