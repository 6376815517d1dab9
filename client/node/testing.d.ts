import type { CallOptions, Generator, Series, SeriesOptions } from './index.js';

/** A fake client, which needs no daemon. The ids of each tag are 1, 2, 3 and so on, or start at `starts[tag]`. */
export declare class FakeClient implements Generator {
  constructor(options?: { starts?: Record<string, bigint | number> });
  /** Makes the next calls fail with these errors, one each. */
  fail(...errors: Error[]): void;
  nextId(tag: string, options?: CallOptions): Promise<bigint>;
  nextNumber(tag: string, options?: CallOptions): Promise<number>;
  nextString(tag: string, options?: CallOptions): Promise<string>;
  nextIdDirect(tag: string, options?: CallOptions): Promise<bigint>;
  nextIds(tag: string, count: number, options?: CallOptions): Promise<bigint[]>;
  /** Returns a series whose numbers are `bills-1`, `bills-2` and so on, or `bills-ACME-1` for a tenant. */
  series(name: string, options?: SeriesOptions): Series;
  close(): void;
}
