/**
 * A client for leafd, which draws unique 64-bit ids from the daemon on this host.
 *
 * <pre>{@code
 * LeafdClient leafd = LeafdClient.connect();
 * long orderId = leafd.nextId("orders");
 * }</pre>
 *
 * <p>{@link io.leafd.LeafdClient} draws ids, and {@link io.leafd.LeafdTag} is a handle for drawing many ids of one tag.
 * {@link io.leafd.PublicIds} converts ids to public ids. Code that takes an {@link io.leafd.IdSource} can be tested with a
 * {@link io.leafd.FakeClient}, without a daemon. All failures are {@link io.leafd.LeafdException}s.
 */
package io.leafd;

// Internals: Supply, HeldRun and Sizing manage the held runs and fetch the next one. Requests handles the deadlines and
// retries of requests. Link, Connection, Pending and Polling implement the connection that all threads share. Wire and
// Socket read and write bytes.
