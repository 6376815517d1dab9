/** Settings of a client. */
export interface ClientOptions {
  /** The path of the daemon's socket, 1 to 107 bytes; by default that of {@link defaultSocket}. */
  socket?: string;
  /**
   * How long a call may take, in milliseconds: 2000 by default, from 0 to 60000, plus 250 ms for the daemon's error to
   * arrive.
   */
  timeoutMs?: number;
  /**
   * Makes calls wait for a daemon that has not been started yet, up to their time limit. By default, they then fail at
   * once. Calls always wait for a daemon that appears to be restarting.
   */
  wait?: boolean;
  /** Makes `nextId` draw every id directly from the daemon. */
  direct?: boolean;
}

/** Limits of one call. */
export interface CallOptions {
  /** Rejects the call with the signal's reason when it is aborted. */
  signal?: AbortSignal | undefined;
  /** Overrides the client's `timeoutMs`; from 0, capped at 60000. */
  timeoutMs?: number | undefined;
}

/** A kind of id: ids of segment tags, or ids of snowflake layouts. */
export type Kind = 'segments' | 'snowflake';

/**
 * The part of a client that most programs need. The fake in `leafd/testing` implements it too. Calls reject with a
 * {@link LeafdError}, or with the reason of an aborted signal. A tag has 1 to 128 characters, none of them a control
 * character.
 */
export interface Generator {
  /** Returns the next id of a segment tag or snowflake layout, usually from a run that the process holds. */
  nextId(tag: string, options?: CallOptions): Promise<bigint>;
  /** Returns the next id as a number. Rejects with `UNSAFE_NUMBER` if the id is above 2^53 - 1. */
  nextNumber(tag: string, options?: CallOptions): Promise<number>;
  /** Returns the next id in decimal digits, for JSON. */
  nextString(tag: string, options?: CallOptions): Promise<string>;
  /** Draws the next id with a separate request. It is higher than any id drawn directly on this host before. */
  nextIdDirect(tag: string, options?: CallOptions): Promise<bigint>;
  /** Draws `count` ids from the daemon, from 0 to 100,000,000, in the order of issue. Each million takes one request. */
  nextIds(tag: string, count: number, options?: CallOptions): Promise<bigint[]>;
  /** Closes the source. Waiting and later calls reject with `CLOSED`. */
  close(): void;
}

/** Draws ids from the daemon on this host. It connects on first use. */
export declare class Client implements Generator {
  /** Throws `INVALID_ARGUMENT` if an option is outside its limits. */
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
  /** Returns a converter for a tag's public ids. It does not check whether the tag exists. */
  publicIds(tag: string, form?: PublicForm): PublicIds;
  /** Returns a handle for the document numbers of a series. It does not check whether the series exists. */
  series(name: string, options?: SeriesOptions): Series;
  /** Returns what the daemon reports about itself. */
  info(options?: CallOptions): Promise<Info>;
  /**
   * Resolves if the daemon answers and can issue ids of all these kinds now. Otherwise rejects, for example with
   * `NOT_READY`.
   */
  ping(kinds?: readonly Kind[], options?: CallOptions): Promise<void>;
  /** Closes the connection and drops all held ids. Waiting and later calls reject with `CLOSED`. */
  close(): void;
}

/** The form of public ids. Use the same form to convert them back. */
export interface PublicForm {
  /**
   * The prefix of texts, before a `_`: a letter, then `a` to `z`, `0` to `9` or `_`, at most 32 characters; none by
   * default.
   */
  prefix?: string;
  /** The width of dense and public ids in bits, from 20 to 63; 63 by default, 53 for JavaScript's numbers. */
  bits?: number;
  /** The number of the key, from 1 to 31; by default 0, the daemon's current key. Texts contain the number of their key. */
  key?: number;
}

/**
 * Converts dense ids of a tag to public ids, and back. The daemon does the conversion. Calls reject with
 * `VALUE_REFUSED` for an id that doesn't fit the form, with `DENIED` for a user who may not mask and unmask, and with
 * `MASK_KEY` if the daemon has no key or a wrong one.
 */
export declare class PublicIds {
  private constructor();
  /**
   * Converts dense ids to public ids, as numbers. Numbers don't contain the number of their key: once another key is in
   * use, they are converted back to the wrong ids unless the form names the old key.
   */
  mask(ids: readonly (bigint | number)[], options?: CallOptions): Promise<bigint[]>;
  /** Converts public ids, as numbers, back to dense ids. */
  unmask(publicIds: readonly (bigint | number)[], options?: CallOptions): Promise<bigint[]>;
  /** Converts dense ids to public ids, as text such as `ord_16dsky4r4xzza8d`. */
  maskText(ids: readonly (bigint | number)[], options?: CallOptions): Promise<string[]>;
  /**
   * Converts public ids, as text, back to dense ids. Rejects with `VALUE_REFUSED` if a text is not a public id of this
   * form.
   */
  unmaskText(texts: readonly string[], options?: CallOptions): Promise<bigint[]>;
}

/** Which numbers of a series to draw. */
export interface SeriesOptions {
  /** The tenant of a series with tenants: letters and digits, in upper or lower case. */
  tenant?: string | undefined;
}

/**
 * Draws document numbers, such as `INV-2026-000123`. Each call draws from the daemon. Calls reject with `TAG_UNKNOWN`
 * if there is no such series, with `VALUE_REFUSED` for a tenant that the series can't have, and with
 * `STORE_UNAVAILABLE` during a store outage if the daemon doesn't know the period or holds no numbers for it.
 */
export interface Series {
  /** Draws the next number. */
  next(options?: CallOptions): Promise<string>;
  /**
   * Draws `count` numbers, from 0 to 1,000,000, in the order of issue. They may span two periods. Each thousand takes
   * one request.
   */
  nextBatch(count: number, options?: CallOptions): Promise<string[]>;
}

/** The bits of a snowflake id: a sign bit of 0, then time, worker and sequence. */
export interface Layout {
  /** Bits of the time field, from 1. */
  readonly timeBits: number;
  /** Bits of the worker field, from 0. */
  readonly workerBits: number;
  /** Bits of the sequence field, from 1. All three fields together have at most 63 bits. */
  readonly sequenceBits: number;
  /** The length of a tick in milliseconds, 1 to 3,600,000. */
  readonly tickMs: number;
  /** The epoch, at which tick 0 starts, in milliseconds of Unix time. */
  readonly epochMs: number;
}

/** What the daemon reports about itself. */
export interface Info {
  /** The protocol version that both sides support. */
  version: number;
  /** Whether segment ids are available now. */
  segmentsReady: boolean;
  /** Whether snowflake ids are available now. */
  snowflakeReady: boolean;
  /** The largest length field of a request. */
  requestBytesMax: number;
  /** The maximum number of ids in one request. */
  countMax: number;
  /** The maximum number of requests on one connection that may await an answer. */
  pipelineMax: number;
  /** The longest deadline that the daemon honours, in milliseconds. */
  deadlineMsMax: number;
  /** The daemon's process id, in its own process namespace. */
  pid: number;
  /** The daemon's release, such as `0.1.0`. */
  release: string;
  /** The snowflake layouts, by the names under which their ids are drawn. */
  layouts: Record<string, Layout>;
}

/** The parts of a snowflake id. */
export interface Decoded {
  /** The start of the tick. */
  time: Date;
  /** Ticks since the layout's epoch. */
  tick: number;
  /** The worker that issued the id. */
  worker: number;
  /** The id's sequence number within its tick and worker. */
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
  /** The reason for the failure. */
  readonly code: Code;
  /** Whether the same call may succeed later without any other action. */
  readonly retryable: boolean;
  /** Whether the call timed out. */
  readonly isTimeout: boolean;
  /** The daemon's estimate of when a retry may succeed, in milliseconds, or 0. */
  readonly retryAfterMs: number;
  /**
   * The number of the daemon's status, or undefined if the daemon did not report the error. If this client doesn't know
   * the number, `code` is `INTERNAL`.
   */
  readonly statusNumber: number | undefined;
}

/** The layout of Leaf's snowflake ids, which leafd issues under the name "snowflake". */
export declare const LEAF: Layout;
/**
 * Splits a snowflake id into its parts. Throws `INVALID_ARGUMENT` for an invalid layout, or an id with bits that the
 * layout doesn't have.
 */
export declare function decode(id: bigint | number | string, layout?: Layout): Decoded;
/**
 * Returns the smallest id that can be issued at a given time or later, for range queries by time. Throws
 * `INVALID_ARGUMENT` for an invalid layout, or a time outside its range.
 */
export declare function firstIdAt(time: Date, layout?: Layout): bigint;
/** Returns the path of the socket that a client uses without the option `socket`. */
export declare function defaultSocket(): string;
