/** Settings of a client. */
export interface ClientOptions {
  /** The path of the daemon's socket; by default {@link defaultSocket}. */
  socket?: string;
  /** How long a call may take, in milliseconds: 2000 by default, at most 60000. 250 ms are added for the daemon's error. */
  timeoutMs?: number;
  /** Makes calls wait for a daemon that has not been started yet, up to their time limit. By default, they fail at once. */
  wait?: boolean;
  /** Makes `nextId` draw every id directly from the daemon. */
  direct?: boolean;
}

/** Limits of one call. */
export interface CallOptions {
  /** Rejects the call with the signal's reason when it is aborted. */
  signal?: AbortSignal | undefined;
  /** Overrides the client's `timeoutMs`. */
  timeoutMs?: number | undefined;
}

/** A kind of id: ids of segment tags, or ids of snowflake layouts. */
export type Kind = 'segments' | 'snowflake';

/** The part of a client that most programs need. The fake in `leafd/testing` implements it too. */
export interface Generator {
  /** Returns the next id of a segment tag or snowflake layout, usually from a run that the process holds. */
  nextId(tag: string, options?: CallOptions): Promise<bigint>;
  /** Returns the next id as a number. Rejects with `UNSAFE_NUMBER` if the id is above 2^53 - 1. */
  nextNumber(tag: string, options?: CallOptions): Promise<number>;
  /** Returns the next id in decimal digits, for JSON. */
  nextString(tag: string, options?: CallOptions): Promise<string>;
  /** Draws the next id with a separate request. It is higher than any id drawn directly on this host before. */
  nextIdDirect(tag: string, options?: CallOptions): Promise<bigint>;
  /** Draws up to 100,000,000 ids from the daemon, in the order of issue. */
  nextIds(tag: string, count: number, options?: CallOptions): Promise<bigint[]>;
  close(): void;
}

/** Draws ids from the daemon on this host. It connects on first use. */
export declare class Client implements Generator {
  constructor(options?: ClientOptions);
  /** The path of the daemon's socket. */
  readonly socket: string;
  nextId(tag: string, options?: CallOptions): Promise<bigint>;
  nextNumber(tag: string, options?: CallOptions): Promise<number>;
  nextString(tag: string, options?: CallOptions): Promise<string>;
  nextIdDirect(tag: string, options?: CallOptions): Promise<bigint>;
  nextIds(tag: string, count: number, options?: CallOptions): Promise<bigint[]>;
  /** Returns an id that the process already holds, or undefined if it holds none. It never waits. */
  heldId(tag: string): bigint | undefined;
  /** Returns the converter for a tag's public ids. */
  publicIds(tag: string, form?: PublicForm): PublicIds;
  /** Returns a handle for the document numbers of a series. It does not check whether the series exists. */
  series(name: string, options?: SeriesOptions): Series;
  /** Returns what the daemon reports about itself. */
  info(options?: CallOptions): Promise<Info>;
  /** Resolves if the daemon answers and can issue ids of all these kinds now; otherwise rejects, for example with `NOT_READY`. */
  ping(kinds?: readonly Kind[], options?: CallOptions): Promise<void>;
  /** Closes the connection and drops all held ids. Waiting and later calls reject with `CLOSED`. */
  close(): void;
}

/** The form of public ids. Use the same form to convert them back. */
export interface PublicForm {
  /** The prefix of texts. */
  prefix?: string;
  /** The width of dense and public ids in bits; 63 by default, 53 for JavaScript's numbers. */
  bits?: number;
  /** The number of the key; by default the daemon's current one. Texts contain it. */
  key?: number;
}

/** Converts dense ids of a tag to public ids, and back. The daemon does this for users with the right to unmask. */
export declare class PublicIds {
  private constructor();
  /** Returns the public numbers of ids. */
  mask(ids: readonly (bigint | number)[], options?: CallOptions): Promise<bigint[]>;
  /** Returns the ids of public numbers. */
  unmask(publicIds: readonly (bigint | number)[], options?: CallOptions): Promise<bigint[]>;
  /** Returns the public texts of ids, such as `ord_16dsky4r4xzza8d`. */
  maskText(ids: readonly (bigint | number)[], options?: CallOptions): Promise<string[]>;
  /** Returns the ids of public texts. Rejects with `VALUE_REFUSED` if a text is not a public id of this form. */
  unmaskText(texts: readonly string[], options?: CallOptions): Promise<bigint[]>;
}

/** Which numbers of a series to draw. */
export interface SeriesOptions {
  /** The tenant of a series with tenants: letters and digits, in upper or lower case. */
  tenant?: string | undefined;
}

/**
 * Draws document numbers, such as `INV-2026-000123`, each from the daemon. Calls reject with `TAG_UNKNOWN` if there is no
 * such series, with `VALUE_REFUSED` for a tenant that the series can't have, and with `STORE_UNAVAILABLE` during a
 * store outage if the daemon doesn't know the period or holds no numbers for it.
 */
export interface Series {
  /** Draws the next number. */
  next(options?: CallOptions): Promise<string>;
  /** Draws up to 1,000,000 numbers, in the order of issue. They may span two periods. Each thousand takes one request. */
  nextBatch(count: number, options?: CallOptions): Promise<string[]>;
}

/** The bits of a snowflake id: a sign bit of 0, then time, worker and sequence. */
export interface Layout {
  readonly timeBits: number;
  readonly workerBits: number;
  readonly sequenceBits: number;
  /** The length of a tick, in milliseconds. */
  readonly tickMs: number;
  /** The epoch, at which time starts, in milliseconds of Unix time. */
  readonly epochMs: number;
}

/** What the daemon reports about itself. */
export interface Info {
  version: number;
  /** Whether segment ids are available now. */
  segmentsReady: boolean;
  /** Whether snowflake ids are available now. */
  snowflakeReady: boolean;
  requestBytesMax: number;
  countMax: number;
  pipelineMax: number;
  deadlineMsMax: number;
  /** The daemon's process id, in its own process namespace. */
  pid: number;
  release: string;
  /** The snowflake layouts, by the names under which their ids are drawn. */
  layouts: Record<string, Layout>;
}

/** The parts of a snowflake id. */
export interface Decoded {
  /** When the tick starts. */
  time: Date;
  tick: number;
  worker: number;
  sequence: number;
}

/** The reason for a failure: a status of the protocol, or a cause in the client. */
export type Code =
  | 'UNREACHABLE' | 'DISCONNECTED' | 'TIMED_OUT' | 'NOT_READY' | 'PROTOCOL' | 'CLOSED' | 'INVALID_ARGUMENT' | 'UNSAFE_NUMBER'
  | 'MALFORMED' | 'UNKNOWN_OPCODE' | 'VERSION' | 'FRAME_LENGTH' | 'TAG_INVALID' | 'TAG_UNKNOWN' | 'COUNT_INVALID' | 'DENIED'
  | 'OVERLOADED' | 'DEADLINE' | 'STORE_UNAVAILABLE' | 'CLOCK_BEHIND' | 'NO_WORKER' | 'TAG_EXHAUSTED' | 'TIME_EXHAUSTED'
  | 'JOURNAL' | 'SHUTTING_DOWN' | 'TAG_EXISTS' | 'VALUE_REFUSED' | 'INTERNAL' | 'CONNECTION_LIMIT' | 'STORE_REFUSED' | 'MASK_KEY';

/** The error of a failed call. */
export declare class LeafdError extends Error {
  constructor(code: Code, message: string, options?: { retryAfterMs?: number; cause?: unknown });
  readonly code: Code;
  /** Whether the same call may succeed later without any other action. */
  readonly retryable: boolean;
  /** Whether the call timed out. */
  readonly isTimeout: boolean;
  /** The daemon's estimate of when a retry may succeed, in milliseconds, or 0. */
  readonly retryAfterMs: number;
  /** The number of the daemon's status. If this client doesn't know it, `code` is INTERNAL. */
  readonly statusNumber: number | undefined;
}

/** The layout of Leaf's snowflake ids, which leafd issues under the name "snowflake". */
export declare const LEAF: Layout;
/** Splits a snowflake id into its parts. */
export declare function decode(id: bigint | number | string, layout?: Layout): Decoded;
/** Returns the smallest id that can be issued at a given time or later, for range queries by time. */
export declare function firstIdAt(time: Date, layout?: Layout): bigint;
/** Returns the path of the socket that a client uses without the option `socket`. */
export declare function defaultSocket(): string;
