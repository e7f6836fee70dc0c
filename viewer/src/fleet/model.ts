// What `dashcam fleet view` writes into the page, and the sums that the page shows of it.
//
// How it works: a *cell* is a cause on a host of a version in an hour. Python asks the engine for the
// most expensive 10,000 cells; charts are sums of cells. What is beyond them is in `rest_ns`.

export interface Cause {
  service: string; fingerprint: string; cause: string; place: string; culprit: string; summary: string; advice: string;
  excess_ns: number; share: number; share_95: [number, number] | null; slow_per_million: number | null;
  hosts: number; hosts_of_service: number; captures: number; confirmed: number;
  first_utc: string | null; last_utc: string | null; requests: string[]; rest_ns: number;
  /** Number of the capture that has most of it. */
  worst: number;
}
export interface Version { service: string; version: string | null; requests: number | null; captures: number }
export interface Fleet {
  title: string; text: string; from_hour: number; hours: number;
  causes: Cause[]; versions: Version[]; hosts: string[]; captures: string[];
  /** Columns of the cells; hosts, versions, captures and causes by their number. */
  cells: { cause: number[]; host: number[]; version: number[]; hour: number[]; excess_ns: number[]; worst: number[] };
}

/** Columns at most, of a trend or of the heat map. */
export const COLUMNS = 168;
/** Hosts in the heat map at most. */
export const HOSTS = 100;
const HOUR_MS = 3_600_000;

/** Hours in a column: 1, or as few whole ones as give no more than `COLUMNS`. */
export function perColumn(hours: number): number {
  return Math.max(1, Math.ceil(hours / COLUMNS));
}

/** When a column begins, ms since 1970. */
export function columnBegins(fleet: Fleet, column: number): number {
  return (fleet.from_hour + column * perColumn(fleet.hours)) * HOUR_MS;
}

function columnOf(fleet: Fleet, cell: number): number {
  return Math.floor((fleet.cells.hour[cell] - fleet.from_hour) / perColumn(fleet.hours));
}

export function columns(fleet: Fleet): number {
  return Math.max(1, Math.ceil(fleet.hours / perColumn(fleet.hours)));
}

/** Excess of each cause in each column. */
export function trends(fleet: Fleet): Float64Array[] {
  const made = fleet.causes.map(() => new Float64Array(columns(fleet)));
  fleet.cells.cause.forEach((cause, cell) => {
    made[cause][columnOf(fleet, cell)] += fleet.cells.excess_ns[cell];
  });
  return made;
}

export interface Heat {
  /** Numbers of the hosts with the most excess, the most expensive first. */
  hosts: number[];
  /** Excess by host (row) and column. */
  excess_ns: Float64Array[];
  /** The capture to open for each of them; -1: none. */
  worst: Int32Array[];
  most_ns: number;
  /** Hosts that are not shown. */
  more: number;
}

/** Host by time, of one cause or of all (null). */
export function heat(fleet: Fleet, cause: number | null): Heat {
  const { cells } = fleet;
  const chosen = cells.cause.map((_, cell) => cell).filter((cell) => cause === null || cells.cause[cell] === cause);
  const sums = new Map<number, number>();
  for (const cell of chosen) sums.set(cells.host[cell], (sums.get(cells.host[cell]) ?? 0) + cells.excess_ns[cell]);
  const ranked = [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([host]) => host);
  const hosts = ranked.slice(0, HOSTS);
  const row = new Map(hosts.map((host, at) => [host, at]));
  const width = columns(fleet);
  const excess_ns = hosts.map(() => new Float64Array(width));
  const worst = hosts.map(() => new Int32Array(width).fill(-1));
  const top = hosts.map(() => new Float64Array(width));
  let most_ns = 0;
  for (const cell of chosen) {
    const at = row.get(cells.host[cell]);
    if (at === undefined) continue;
    const column = columnOf(fleet, cell);
    excess_ns[at][column] += cells.excess_ns[cell];
    most_ns = Math.max(most_ns, excess_ns[at][column]);
    if (cells.excess_ns[cell] >= top[at][column]) {
      top[at][column] = cells.excess_ns[cell];
      worst[at][column] = cells.worst[cell];
    }
  }
  return { hosts, excess_ns, worst, most_ns, more: ranked.length - hosts.length };
}

/** Excess of a cause in each version of its service, and that of a million requests of the version. */
export function byVersion(fleet: Fleet, cause: number): { version: Version; excess_ns: number; per_million_ns: number | null }[] {
  const { cells } = fleet;
  const sums = new Float64Array(fleet.versions.length);
  cells.cause.forEach((one, cell) => { if (one === cause) sums[cells.version[cell]] += cells.excess_ns[cell]; });
  return fleet.versions.map((version, at) => ({
    version, excess_ns: sums[at], per_million_ns: version.requests ? sums[at] / version.requests * 1e6 : null,
  })).filter(({ version }) => version.service === fleet.causes[cause].service);
}

/** How dark a cell is, 0 to 1: by the logarithm, so that small ones are seen beside large ones. */
export function shade(ns: number, most_ns: number): number {
  return ns <= 0 || most_ns <= 0 ? 0 : 0.15 + 0.85 * Math.max(0, 1 + Math.log10(ns / most_ns) / 3);
}
